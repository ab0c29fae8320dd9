"""A real `kvquarry serve` in a process of its own, on a Unix socket and ports that were free."""

import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

_STOP_TIMEOUT_S = 30


@dataclass(frozen=True, slots=True)
class RunningService:
    """Where a running service is found.

    Attributes:
        target: Its Unix socket.
        metrics_address: ``host:port`` of its metrics.
        health_address: ``host:port`` of its health.
    """

    target: str
    metrics_address: str
    health_address: str


@contextmanager
def running_service(
    command: Sequence[str] = (sys.executable, "-m", "kvquarry_server"),
    env: Mapping[str, str] | None = None,
) -> Iterator[RunningService]:
    """Start a service, wait until it says where it is, and see it end well on SIGTERM."""
    # The socket's path may be 107 bytes long: pytest's folders are too deep for it.
    with tempfile.TemporaryDirectory(prefix="kvquarry-") as folder:
        target = f"unix:{folder}/kvquarry.sock"
        process = subprocess.Popen(
            [
                *command,
                *("serve", "--listen", target),
                *("--metrics-listen", "127.0.0.1:0", "--health-listen", "127.0.0.1:0"),
            ],
            env=env,
            stdout=subprocess.PIPE,
            text=True,
        )
        with process:
            try:
                assert process.stdout is not None
                yield _read_announcement(target, process.stdout.readline())
            finally:
                process.terminate()
                returncode = process.wait(_STOP_TIMEOUT_S)
        assert returncode == 0, f"the service ended with {returncode}"


def _read_announcement(target: str, line: str) -> RunningService:
    found = re.search(r"metrics on http://(\S+)/metrics health on (\S+)", line)
    assert found is not None, f"the service announced {line!r}"
    return RunningService(target, found[1], found[2])
