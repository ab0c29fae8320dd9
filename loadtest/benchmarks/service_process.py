"""A `kvquarry serve` of the benchmark's own, and what CPU it takes."""

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

_STOP_TIMEOUT_S = 20.0


@dataclass(frozen=True, slots=True)
class ServiceProcess:
    """A running service.

    Attributes:
        target: Its Unix socket, as in ``KVQUARRY_TARGET``.
        pid: Its process.
    """

    target: str
    pid: int

    def cpu_s(self) -> float:
        """CPU seconds of all its threads until now, finer than the clock tick of ``stat``."""
        total_ns = 0
        for task in Path(f"/proc/{self.pid}/task").iterdir():
            total_ns += int((task / "schedstat").read_text().split()[0])
        return total_ns / 1e9


@contextmanager
def own_service() -> Iterator[ServiceProcess]:
    """Start a service on a socket in a temporary folder; stop it by its pid at the end."""
    with tempfile.TemporaryDirectory(prefix="kvquarry-") as folder:
        target = f"unix:{folder}/kvquarry.sock"
        flags = ("serve", "--listen", target, "--metrics-listen", "off", "--drain-seconds", "0")
        command = [sys.executable, "-m", "kvquarry_server", *flags, "--log-level", "warning"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            try:
                assert process.stdout is not None
                if not process.stdout.readline():
                    raise ChildProcessError("the service did not start; see its message above")
                yield ServiceProcess(target, process.pid)
            finally:
                _stop(process)


def _stop(process: "subprocess.Popen[str]") -> None:
    process.terminate()
    try:
        process.wait(_STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
