"""Runs vLLM's own OpenAI server on a Unix socket and speaks HTTP to it."""

import contextlib
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from kvquarry_vllm.demo.engine import ENGINE_ENV
from kvquarry_vllm.demo.environment import child_environment

READY_TIMEOUT_S = 150.0
STOP_TIMEOUT_S = 20.0


class UnixConnection(http.client.HTTPConnection):
    """HTTP over a Unix socket."""

    def __init__(self, path: Path) -> None:
        super().__init__("vllm", timeout=60.0)
        self._path = path

    def connect(self) -> None:
        """Connect to the socket's path; leaves nothing open when nobody listens."""
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        try:
            self.sock.connect(str(self._path))
        except OSError:
            self.close()
            raise


class OpenAIServer:
    """``python -m vllm.entrypoints.openai.api_server`` from ``with`` to its end."""

    def __init__(
        self,
        model: Path,
        path: Path,
        *,
        log: Path,
        options: Sequence[str],
        env: Mapping[str, str],
    ) -> None:
        self._log = log
        self._command = [
            *(sys.executable, "-m", "vllm.entrypoints.openai.api_server"),
            *("--model", str(model), "--served-model-name", "tiny", "--uds", str(path)),
            *options,
        ]
        # As users run it: the engine in a process of its own.
        self._env = {**ENGINE_ENV, "VLLM_ENABLE_V1_MULTIPROCESSING": "1", **env}
        self._path = path
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=child_environment(self._env),
                start_new_session=True,
            )
        try:
            self._wait_until_ready(self._process)
        except BaseException:
            self._stop(self._process)
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._process is not None
        self._stop(self._process)

    def complete(self, prompt: str, *, max_tokens: int, **wishes: Any) -> dict[str, Any]:
        """The answer of ``/v1/completions`` to a greedy request with some extra arguments."""
        status, content = self.post(prompt, max_tokens=max_tokens, **wishes)
        assert status == 200, content
        return content

    def post(self, prompt: str, *, max_tokens: int, **wishes: Any) -> tuple[int, dict[str, Any]]:
        """The same with the status, whatever it is."""
        body = {"model": "tiny", "prompt": prompt, "max_tokens": max_tokens, "temperature": 0}
        body |= {"ignore_eos": True, "vllm_xargs": wishes or None}
        status, text = self._ask("POST", "/v1/completions", json.dumps(body))
        content: dict[str, Any] = json.loads(text)
        return status, content

    def tail(self) -> str:
        """The last lines of the server's log."""
        return "\n".join(self._log.read_text(errors="replace").splitlines()[-25:])

    def _ask(self, method: str, path: str, body: str | None = None) -> tuple[int, bytes]:
        with contextlib.closing(UnixConnection(self._path)) as connection:
            connection.request(method, path, body, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            return answer.status, answer.read()

    def _wait_until_ready(self, process: subprocess.Popen[bytes]) -> None:
        deadline = time.monotonic() + READY_TIMEOUT_S
        while True:
            with contextlib.suppress(OSError):
                if self._ask("GET", "/health")[0] == 200:
                    return
            assert process.poll() is None, self.tail()
            assert time.monotonic() < deadline, self.tail()
            time.sleep(0.25)

    def _stop(self, process: subprocess.Popen[bytes]) -> None:
        """Let it end by itself on SIGTERM, then leave nothing of its process group."""
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(STOP_TIMEOUT_S)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
