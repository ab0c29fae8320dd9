"""Starts real vLLM engines, each in its own process group, and waits for them with time limits."""

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from kvquarry_vllm.demo.environment import child_environment
from kvquarry_vllm.demo.job import EngineJob, EngineResult

ENGINE_ENV: Final[Mapping[str, str]] = {
    # The engine's core runs in the process that was started, so that its scheduler can be read.
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    # One thread and no split of the keys: sums are then taken in the same order on every machine
    # and for every batch, without which no two runs could be compared bit for bit.
    "OMP_NUM_THREADS": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "VLLM_CPU_ATTN_SPLIT_KV": "0",
    # The CPU build compiles a few functions even when told to be eager: ten seconds and a compiler.
    "TORCH_COMPILE_DISABLE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "HF_HUB_OFFLINE": "1",
}

_LOG_TAIL_LINES: Final = 25
_GRACE_S: Final = 10.0

ProgressSink = Callable[[Mapping[str, Any]], None]
"""Is given each event of an engine as it arrives: started, wave, result."""


class EngineFailure(RuntimeError):
    """An engine ended or ran out of time before it answered; carries the end of its log."""


def ignore_progress(event: Mapping[str, Any]) -> None:
    """The sink for callers that only want the result."""


def run_engine(
    job: EngineJob,
    *,
    log: Path,
    timeout_s: float,
    on_event: ProgressSink = ignore_progress,
) -> EngineResult:
    """Run ``job`` to its end and return what it measured; raises ``EngineFailure``.

    Whatever happens, no process of the engine is left when this returns.
    """
    with EngineRun(job, log=log) as run:
        result = run.wait_for_result(timeout_s=timeout_s, on_event=on_event)
        run.wait_for_exit()
        return result


class EngineRun:
    """One engine process from ``start()`` (or ``with``) to ``close()``."""

    def __init__(self, job: EngineJob, *, log: Path) -> None:
        self.job = job
        self.log = log
        self._process: subprocess.Popen[bytes] | None = None
        self._unread = b""

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
        """The engine process's id, which is its process group's too."""
        return self._running().pid

    def start(self) -> None:
        """Start the process and give it its job; does not wait."""
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "kvquarry_vllm.demo.engine_process"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env=child_environment({**ENGINE_ENV, **self.job.env}),
                start_new_session=True,
            )
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # it died at once: the next wait tells why
            self._process.stdin.write(self.job.to_json().encode() + b"\n")
            self._process.stdin.flush()

    def wait_for_start(self, *, timeout_s: float) -> float:
        """Wait until the engine can serve; returns its start-up time in seconds."""
        return float(self._wait_for("started", timeout_s, ignore_progress)["startup_s"])

    def wait_for_result(
        self, *, timeout_s: float, on_event: ProgressSink = ignore_progress
    ) -> EngineResult:
        """Wait until every wave has been served."""
        return EngineResult.from_dict(self._wait_for("result", timeout_s, on_event)["result"])

    def wait_for_exit(self, *, timeout_s: float = _GRACE_S) -> int | None:
        """Wait for the process to end by itself; its exit status, or None when it did not."""
        process = self._running()
        assert process.stdin is not None
        if self.job.hold:
            process.stdin.close()
        try:
            return process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return None

    def kill(self) -> None:
        """SIGKILL the engine and its workers at once, as a crash or the kernel would."""
        process = self._running()
        _kill_group(process.pid)
        process.wait()

    def close(self) -> None:
        """Leave nothing running; safe to call twice."""
        if self._process is None:
            return
        process, self._process = self._process, None
        _kill_group(process.pid)
        process.wait()
        for stream in (process.stdin, process.stdout):
            if stream is not None and not stream.closed:
                stream.close()

    def log_tail(self) -> str:
        """The last lines that vLLM printed."""
        lines = self.log.read_text(errors="replace").splitlines()
        return "\n".join(lines[-_LOG_TAIL_LINES:])

    def _running(self) -> subprocess.Popen[bytes]:
        assert self._process is not None, "the engine was not started"
        return self._process

    def _wait_for(self, name: str, timeout_s: float, on_event: ProgressSink) -> dict[str, Any]:
        deadline = time.monotonic() + timeout_s
        while True:
            event = self._next_event(deadline)
            on_event(event)
            if event["event"] == name:
                return event

    def _next_event(self, deadline: float) -> dict[str, Any]:
        process = self._running()
        assert process.stdout is not None
        while b"\n" not in self._unread:
            left_s = deadline - time.monotonic()
            if left_s <= 0 or not select.select([process.stdout], [], [], left_s)[0]:
                raise EngineFailure(f"engine out of time; its log ends:\n{self.log_tail()}")
            data = os.read(process.stdout.fileno(), 1 << 20)
            if not data:
                status = process.wait()
                raise EngineFailure(f"engine ended ({status}); its log ends:\n{self.log_tail()}")
            self._unread += data
        line, _, self._unread = self._unread.partition(b"\n")
        event: dict[str, Any] = json.loads(line)
        return event


def _kill_group(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)
