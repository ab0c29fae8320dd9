"""A service reads its sockets without gRPC's event engine, unless told otherwise."""

import subprocess
import sys
from pathlib import Path

import pytest

from kvquarry_server.polling import prefer_fewer_threads

STARTS = (sys.executable, "-m", "kvquarry_server", "serve", "--metrics-listen", "off")


def test_what_somebody_said_stays() -> None:
    environment = {"GRPC_EXPERIMENTS": "mine"}
    prefer_fewer_threads(environment)
    assert environment == {"GRPC_EXPERIMENTS": "mine"}


def test_grpc_is_not_imported_before_it_is_told() -> None:
    script = "import sys, kvquarry_server.cli; print('grpc' in sys.modules)"
    assert subprocess.check_output((sys.executable, "-c", script), text=True) == "False\n"


def test_grpc_knows_what_it_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A gRPC without this experiment says so in its log: then there is nothing left to prefer."""
    monkeypatch.delenv("GRPC_EXPERIMENTS", raising=False)
    command = (*STARTS, "--listen", f"unix:{tmp_path}/a.sock", "--drain-seconds", "0")
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as service:
        assert service.stdout is not None
        assert service.stdout.readline()
        service.terminate()
        _, log = service.communicate(timeout=20)
    assert b"experiment" not in log
