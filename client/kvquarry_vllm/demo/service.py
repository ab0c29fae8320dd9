"""Runs a real ``kvquarry serve`` and asks it what it holds."""

import contextlib
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from kvquarry.v1alpha import admin_pb2, admin_pb2_grpc
from kvquarry_client.target import parse_target
from kvquarry_vllm.demo.environment import child_environment
from kvquarry_vllm.demo.leash import on_leash

_READY_TIMEOUT_S: Final = 30.0
_STOP_TIMEOUT_S: Final = 15.0
_POLL_S: Final = 0.1


class ServiceFailure(RuntimeError):
    """The service ended or did not become ready; carries the end of its log."""


class ServiceProcess:
    """One ``kvquarry serve`` on a Unix socket, from ``start()`` (or ``with``) to ``close()``."""

    def __init__(
        self, socket: Path, *, log: Path, options: Sequence[str] = (), env: Mapping[str, str] = {}
    ) -> None:
        self.target = f"unix:{socket}"
        self.log = log
        self._options = tuple(options)
        self._env = dict(env)
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def pid(self) -> int:
        """The process's id."""
        assert self._process is not None, "the service was not started"
        return self._process.pid

    def start(self) -> None:
        """Start it and wait until it serves; raises ``ServiceFailure``.

        It ends by itself when the thread that called this ends, so call it from the main thread.
        """
        command = [*kvquarry_command(), "serve", "--listen", self.target, *self._options]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                on_leash(command),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=child_environment(self._env),
                start_new_session=True,
            )
        try:
            self._wait_until_serving()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Ask it to end with SIGTERM, insist with SIGKILL; safe to call twice."""
        if self._process is None:
            return
        process, self._process = self._process, None
        process.send_signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_STOP_TIMEOUT_S)
        process.kill()
        process.wait()

    def _wait_until_serving(self) -> None:
        assert self._process is not None
        deadline = time.monotonic() + _READY_TIMEOUT_S
        while not is_serving(self.target):
            if self._process.poll() is not None or time.monotonic() > deadline:
                tail = "\n".join(self.log.read_text(errors="replace").splitlines()[-25:])
                raise ServiceFailure(f"kvquarry serve did not become ready; its log ends:\n{tail}")
            time.sleep(_POLL_S)


def kvquarry_command() -> list[str]:
    """How to call the ``kvquarry`` command of this Python's environment."""
    script = shutil.which("kvquarry", path=str(Path(sys.executable).parent))
    return [script] if script else [sys.executable, "-m", "kvquarry_server"]


def is_serving(target: str) -> bool:
    """Whether the service at ``target`` says that it is healthy."""
    request = health_pb2.HealthCheckRequest()
    with grpc.insecure_channel(_address(target)) as channel:
        try:
            reply = health_pb2_grpc.HealthStub(channel).Check(request, timeout=2.0)
        except grpc.RpcError:
            return False
    return bool(reply.status == health_pb2.HealthCheckResponse.SERVING)


def read_status(target: str) -> Any:
    """What the service at ``target`` holds: its ``GetStatusResponse``."""
    with grpc.insecure_channel(_address(target)) as channel:
        stub = admin_pb2_grpc.AdminServiceStub(channel)
        return stub.GetStatus(admin_pb2.GetStatusRequest(), timeout=5.0)


def _address(target: str) -> str:
    address = parse_target(target).grpc_address
    assert address is not None, "a pool that is inproc: has no service to ask"
    return address
