"""Every manifest is known, field by field, to the oldest, a middle and the newest Kubernetes."""

import tomllib
from pathlib import Path

import kubernetes_validate
import pytest

from tests.architecture.repository import ROOT
from tests.deploy import manifests
from tests.deploy.tools import of_machine

VERSIONS = ["1.29", "1.33", "1.37"]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    "path", manifests.plain_manifests(manifests.BASE), ids=lambda path: path.stem
)
def test_a_manifest_is_valid(path: Path, version: str) -> None:
    for document in manifests.documents(path):
        kubernetes_validate.validate(document, version, strict=True)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_misspelt_field_is_found(version: str) -> None:
    (deployment,) = manifests.documents(manifests.BASE / "deployment.yaml")
    deployment["spec"]["template"]["spec"]["automountServiceAccountTokens"] = False
    with pytest.raises(kubernetes_validate.ValidationError, match="automountServiceAccountTokens"):
        kubernetes_validate.validate(deployment, version, strict=True)


@pytest.mark.parametrize("version", VERSIONS)
def test_what_kustomize_makes_of_them_is_valid(version: str) -> None:
    kubectl = of_machine("kubectl", "kubernetes-client")
    for document in manifests.kustomized(kubectl, manifests.BASE):
        kubernetes_validate.validate(document, version, strict=True)


def test_kustomize_adds_the_podmonitor_only_where_it_is_asked_for() -> None:
    kubectl = of_machine("kubectl", "kubernetes-client")
    base = [one["kind"] for one in manifests.kustomized(kubectl, manifests.BASE)]
    monitored = [one["kind"] for one in manifests.kustomized(kubectl, manifests.PODMONITOR)]
    assert sorted(base) == ["Deployment", "Service"]
    assert sorted(monitored) == sorted([*base, "PodMonitor"])


@pytest.mark.parametrize("folder", [manifests.BASE, manifests.PODMONITOR], ids=lambda one: one.name)
def test_a_kustomization_names_every_manifest_beside_it(folder: Path) -> None:
    (kustomization,) = manifests.documents(folder / "kustomization.yaml")
    named = {folder / name for name in kustomization["resources"] if name.endswith(".yaml")}
    assert named == set(manifests.plain_manifests(folder))


def test_the_image_is_of_this_version() -> None:
    with (ROOT / "pyproject.toml").open("rb") as file:
        version = tomllib.load(file)["project"]["version"]
    (kustomization,) = manifests.documents(manifests.BASE / "kustomization.yaml")
    assert kustomization["images"] == [{"name": "kvquarry", "newTag": version}]
