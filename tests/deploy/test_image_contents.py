"""What the image holds runs: the wheel as the image builds it, with what it declares."""

import json
import os
import subprocess
import sys
import urllib.request
import zipfile
from pathlib import Path

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from tests.architecture.repository import PACKAGES
from tests.deploy.bare_environment import BareEnvironment
from tests.deploy.running_service import running_service

TIMEOUT_S = 10


def test_the_wheel_of_the_image_holds_every_module(image_wheel: Path) -> None:
    expected = {
        str(module.relative_to(package.parent))
        for package in PACKAGES
        for module in package.rglob("*.py")
    }
    names = zipfile.ZipFile(image_wheel).namelist()
    assert expected == {name for name in names if name.endswith(".py")}


@pytest.mark.parametrize("module", ["torch", "vllm", "numpy", "redis"])
def test_the_image_lacks_what_only_engines_need(
    bare_environment: BareEnvironment, module: str
) -> None:
    command = [bare_environment.python, "-c", f"import {module}"]
    imported = subprocess.run(command, check=False, capture_output=True, text=True)
    assert f"No module named '{module}'" in imported.stderr


def test_the_service_serves_with_nothing_but_what_it_declares(
    bare_environment: BareEnvironment,
) -> None:
    with running_service([bare_environment.kvquarry]) as service:
        command = [bare_environment.kvquarry, "status", "--target", service.target, "--json"]
        status = subprocess.run(command, check=True, capture_output=True, text=True)
        assert json.loads(status.stdout)["pools"] == []
        assert health_of(service.health_address) == health_pb2.HealthCheckResponse.SERVING
        url = f"http://{service.metrics_address}/metrics"
        with urllib.request.urlopen(url, timeout=TIMEOUT_S) as page:
            assert b"\nkvquarry_pools 0.0\n" in page.read()


def test_the_health_check_fails_where_nobody_serves(bare_environment: BareEnvironment) -> None:
    command = [bare_environment.kvquarry, "status", "--target", "unix:/nowhere/kvquarry.sock"]
    status = subprocess.run(command, check=False, capture_output=True, text=True)
    assert status.returncode != 0
    assert "/nowhere/kvquarry.sock" in status.stderr


def test_the_unpacked_wheel_on_the_path_is_a_plugin_of_vllm(
    image_wheel: Path, tmp_path: Path
) -> None:
    subprocess.run([sys.executable, "-m", "zipfile", "-e", image_wheel, tmp_path], check=True)
    code = (
        "import importlib.metadata as metadata; "
        "print(*(one.value for one in metadata.entry_points(group='vllm.general_plugins')))"
    )
    # -S: nothing that is installed here, only what is on the path.
    found = subprocess.run(
        [sys.executable, "-S", "-c", code],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        check=True,
        capture_output=True,
        text=True,
    )
    assert found.stdout.strip() == "kvquarry_vllm.plugin:register"


def health_of(address: str) -> int:
    with grpc.insecure_channel(address) as channel:
        request = health_pb2.HealthCheckRequest()
        answer = health_pb2_grpc.HealthStub(channel).Check(request, timeout=TIMEOUT_S)
    return int(answer.status)
