"""A service reads its sockets without gRPC's event engine, unless told otherwise."""

import subprocess
import sys
from pathlib import Path

import pytest

from kvquarry_server.polling import prefer_fewer_threads

STARTS = (sys.executable, "-m", "kvquarry_server", "serve", "--metrics-listen", "off")

WATCHES_THE_IMPORT = """
import os, sys

class Watch:
    def find_spec(self, name, path=None, target=None):
        if name == "grpc":
            print(os.environ.get("GRPC_EXPERIMENTS"))
            sys.exit()

sys.meta_path.insert(0, Watch())
from kvquarry_server.cli import main
main(["serve", "--listen", "unix:/nowhere/a.sock"])
"""


def test_what_somebody_said_stays() -> None:
    environment = {"GRPC_EXPERIMENTS": "mine"}
    prefer_fewer_threads(environment)
    assert environment == {"GRPC_EXPERIMENTS": "mine"}


def test_it_is_said_before_grpc_is_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GRPC_EXPERIMENTS", raising=False)
    heard = subprocess.check_output((sys.executable, "-c", WATCHES_THE_IMPORT), text=True)
    assert heard == "-event_engine_listener\n"


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
