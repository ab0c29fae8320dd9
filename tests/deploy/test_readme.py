"""What deploy/README.md tells fits the image and the manifests."""

import re
import tomllib

from tests.architecture.repository import ROOT

README = (ROOT / "deploy/README.md").read_text()


def test_everybody_means_the_image_of_this_version() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    texts = [
        (ROOT / name).read_text() for name in ("deploy/docker/Dockerfile", "docker-compose.yml")
    ]
    for text in (README, *texts):
        tags = re.findall(r"(?:-t|image:|9464) kvquarry(\S*)", text)
        assert set(tags) == {f":{version}"}


def test_the_container_that_is_told_can_be_reached() -> None:
    dockerfile = (ROOT / "deploy/docker/Dockerfile").read_text()
    (run,) = re.findall(r"docker run (.*?kvquarry:\S+)$", README, re.M | re.S)
    (folder,) = re.findall(r"-v (\S+):\S+", run)
    assert f"-v {folder}:/run/kvquarry" in run
    assert f"KVQUARRY_TARGET=unix:{folder}/kvquarry.sock" in README
    (port,) = re.findall(r"-p 127\.0\.0\.1:\d+:(\d+)", run)
    assert f"KVQUARRY_METRICS_LISTEN=0.0.0.0:{port}" in dockerfile
    (user,) = re.findall(r'--user "(\d+):', run)
    assert f"USER {user}:" in dockerfile
    assert f"-o {user} " in README
