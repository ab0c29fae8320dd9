"""A real service in a process of its own.

A synchronous client and a grpc.aio server in one process starve each other; and a service that is
killed, drained or fed nonsense should not take the tests with it.
"""

import os
import re
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import grpc

_PATIENCE_S = 10.0


class RunningService:
    """A service that has said where it is."""

    def __init__(self, process: "subprocess.Popen[str]", folder: Path) -> None:
        self.process = process
        self.folder = folder
        assert process.stdout is not None
        self.announcement = process.stdout.readline()

    @property
    def target(self) -> str:
        """Its Unix socket."""
        return self.found("on (unix:[^ \n]+)")

    @property
    def log(self) -> str:
        """What it has logged so far."""
        return (self.folder / "log").read_text()

    @property
    def bugs(self) -> list[str]:
        """Errors it has logged; gRPC logs it as one when bytes are no message."""
        lines = self.log.splitlines()
        return [line for line in lines if " ERROR " in line and "[DecodeError]" not in line]

    def found(self, pattern: str) -> str:
        """What the announcement says in a pattern's group."""
        match = re.search(pattern, self.announcement)
        assert match is not None, f"no {pattern} in {self.announcement!r}:\n{self.log}"
        return match[1]

    def metrics(self) -> str:
        """What Prometheus would scrape."""
        with urllib.request.urlopen(self.found("(http://[^ \n]+)"), timeout=_PATIENCE_S) as answer:
            text: str = answer.read().decode()
        return text

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def wait(self) -> int:
        """Its exit code, once it has ended."""
        return self.process.wait(_PATIENCE_S)

    def is_alive(self) -> bool:
        return self.process.poll() is None


@contextmanager
def running_service(*flags: str) -> Iterator[RunningService]:
    """A service on a socket and ports of its own, with more flags if need be."""
    with TemporaryDirectory(prefix="kvquarry") as name:
        folder = Path(name)
        command = [
            *(sys.executable, "-m", "kvquarry_server", "serve"),
            *("--listen", f"unix:{folder}/s", "--metrics-listen", "127.0.0.1:0"),
            *flags,
        ]
        environ = {key: value for key, value in os.environ.items() if "KVQUARRY" not in key}
        with (
            (folder / "log").open("w") as log,
            subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=log, text=True, env=environ
            ) as process,
        ):
            try:
                yield RunningService(process, folder)
            finally:
                process.kill()


@contextmanager
def sound_service(*flags: str) -> Iterator[RunningService]:
    """The same, but it has to outlive whatever it is told, without an error of its own."""
    with running_service(*flags) as service:
        yield service
        assert service.is_alive(), service.log
        assert service.bugs == []


@contextmanager
def connected(target: str) -> Iterator[grpc.Channel]:
    """A channel that takes answers of any size."""
    options = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
    with grpc.insecure_channel(target, options=options) as channel:
        yield channel
