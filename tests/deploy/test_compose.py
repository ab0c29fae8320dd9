"""docker-compose.yml: the service, closed as far as it goes, and a Prometheus that finds it."""

import subprocess
from typing import Any

import pytest
import yaml

from tests.architecture.repository import ROOT
from tests.deploy import dockerfile
from tests.deploy.prometheus_config import scrape_targets
from tests.deploy.service_flags import settings_from, target_from
from tests.deploy.tools import of_environment

COMPOSE = ROOT / "docker-compose.yml"


def services() -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = yaml.safe_load(COMPOSE.read_text())["services"]
    return found


def environment() -> dict[str, str]:
    """What the service's container sees: the image's variables under the file's."""
    own: dict[str, str] = services()["kvquarry"]["environment"]
    return dockerfile.environment() | own


def test_compose_file_fits_its_schema() -> None:
    check = [of_environment("check-jsonschema"), "--builtin-schema", "vendor.compose-spec"]
    checked = subprocess.run([*check, COMPOSE], check=False, capture_output=True, text=True)
    assert checked.returncode == 0, checked.stdout


def test_prometheus_scrapes_the_service_where_it_shows_its_metrics() -> None:
    metrics = settings_from([], environment()).metrics_listen
    assert metrics is not None
    assert scrape_targets() == [f"kvquarry:{metrics.port}"]


def test_the_published_port_and_the_health_check_lead_to_the_service() -> None:
    (listen,) = settings_from([], environment()).listen
    port = str(listen).rpartition(":")[2]
    assert services()["kvquarry"]["ports"] == [f"127.0.0.1:{port}:{port}"]
    assert target_from(environment()) == f"127.0.0.1:{port}"


@pytest.mark.parametrize("name", ["kvquarry", "prometheus"])
def test_nothing_is_published_beyond_this_machine(name: str) -> None:
    assert all(port.startswith("127.0.0.1:") for port in services()[name]["ports"])


def test_the_container_of_the_service_is_closed() -> None:
    service = services()["kvquarry"]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert "mem_limit" in service


def test_files_that_compose_names_exist() -> None:
    build = services()["kvquarry"]["build"]
    assert ROOT / build["context"] / build["dockerfile"] == dockerfile.DOCKERFILE
    mounted = [volume.split(":")[0] for volume in services()["prometheus"]["volumes"]]
    assert all((ROOT / path).is_file() for path in mounted if path.startswith("."))
