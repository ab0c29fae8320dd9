"""The load test itself, against a real service."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.architecture.repository import ROOT
from tests.deploy.running_service import running_service

NUM_USERS = 3
TIMEOUT_S = 60


def run_locust(*flags: str) -> subprocess.CompletedProcess[str]:
    """The README's command, with other flags."""
    command = [sys.executable, "-m", "locust", "--config", "loadtest/locust.conf", *flags]
    return subprocess.run(
        command, cwd=ROOT, check=False, capture_output=True, text=True, timeout=TIMEOUT_S
    )


def status_of(target: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "kvquarry_server", "status", "--target", target, "--json"]
    answer = subprocess.run(command, check=True, capture_output=True, text=True, timeout=TIMEOUT_S)
    status: dict[str, Any] = json.loads(answer.stdout)
    return status


def test_engines_are_served_without_a_failure_and_leave_no_pool(tmp_path: Path) -> None:
    results = tmp_path / "results"
    with running_service() as service:
        run = run_locust(
            *("--host", service.target, "--users", str(NUM_USERS), "--spawn-rate", "3"),
            *("--run-time", "8s", "--json-file", str(results)),
        )
        assert run.returncode == 0, run.stderr
        pools = status_of(service.target)["pools"]
    requests = {one["name"]: one for one in json.loads(results.with_suffix(".json").read_text())}
    assert [one["num_failures"] for one in requests.values()] == [0] * len(requests)
    # The pool was empty when each engine finished, or finishing would have failed.
    for name in ("open pool", "register worker", "finish"):
        assert requests[name]["num_requests"] == NUM_USERS, name
    assert requests["admit"]["num_requests"] > 10 * NUM_USERS
    assert requests["grow"]["num_requests"] > 0
    assert pools == []


def test_a_load_that_reaches_nobody_fails() -> None:
    run = run_locust("--host", "unix:/nowhere/kvquarry.sock", "--users", "1", "--run-time", "2s")
    assert run.returncode == 1
    assert "no kvquarry service answered at unix:/nowhere/kvquarry.sock" in run.stderr
    assert "Traceback" not in run.stderr


def test_a_load_without_an_end_is_refused() -> None:
    command = [sys.executable, "-m", "locust", "--headless", "-f", "loadtest/locustfile.py"]
    run = subprocess.run(
        command, cwd=ROOT, check=False, capture_output=True, text=True, timeout=TIMEOUT_S
    )
    assert run.returncode == 1
    assert "--run-time" in run.stderr
