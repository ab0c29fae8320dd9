"""The Kubernetes manifests, and the one pod in them."""

import subprocess
from pathlib import Path
from typing import Any

import yaml

from tests.architecture.repository import ROOT

BASE = ROOT / "deploy/k8s/base"
PODMONITOR = ROOT / "deploy/k8s/podmonitor"

Document = dict[str, Any]


def documents(path: Path) -> list[Document]:
    """Everything in one file."""
    return list(yaml.safe_load_all(path.read_text()))


def plain_manifests(folder: Path) -> list[Path]:
    """The files that kustomize puts together."""
    return sorted(path for path in folder.glob("*.yaml") if path.name != "kustomization.yaml")


def kustomized(kubectl: str, folder: Path) -> list[Document]:
    """What `kubectl apply -k` would send."""
    command = [kubectl, "kustomize", str(folder)]
    rendered = subprocess.run(command, check=True, capture_output=True, text=True)
    return list(yaml.safe_load_all(rendered.stdout))


def pod_template() -> Document:
    """Labels and spec of the pod."""
    (deployment,) = documents(BASE / "deployment.yaml")
    template: Document = deployment["spec"]["template"]
    return template


def pod() -> Document:
    """The pod's spec."""
    spec: Document = pod_template()["spec"]
    return spec


def containers() -> dict[str, Document]:
    """All containers by name, in the order in which they start."""
    return {one["name"]: one for one in [*pod()["initContainers"], *pod()["containers"]]}


def plain_environment(container: Document) -> dict[str, str]:
    """The variables whose values stand in the manifest."""
    return {one["name"]: one["value"] for one in container["env"] if "value" in one}


def ports(container: Document) -> dict[str, int]:
    """A container's ports by name."""
    return {one["name"]: one["containerPort"] for one in container.get("ports", [])}


def mount_of(container: Document, volume: str) -> str:
    """Where a container sees a volume."""
    (path,) = (one["mountPath"] for one in container["volumeMounts"] if one["name"] == volume)
    return str(path)


def volumes() -> dict[str, Document]:
    """The pod's volumes by name."""
    return {one["name"]: one for one in pod()["volumes"]}
