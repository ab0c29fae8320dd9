"""Preloaded into an engine process: what it says to its service goes into a file, too.

LOADTEST_TAPE names the file: one JSON object a line, written at once: an engine may be killed.
"""

import base64
import json
import os
import threading
from pathlib import Path
from typing import IO

import grpc

from kvquarry_client import channel, engine
from kvquarry_client.target import Target
from loadtest.benchmarks.tape import Said, Tape
from loadtest.engine_recording import TAPE_ENV


class _File:
    """Messages come from gRPC's thread and from the engine's."""

    def __init__(self, file: IO[str]) -> None:
        self._file = file
        self._lock = threading.Lock()

    def keep(self, said: Said, message: bytes) -> None:
        line = json.dumps({"said": said.value, "message": base64.b64encode(message).decode()})
        with self._lock:
            self._file.write(line + "\n")
            self._file.flush()


def _taped_channel(target: Target) -> grpc.Channel:
    return grpc.intercept_channel(channel.open_channel(target), Tape(_file.keep))


_file = _File(Path(os.environ[TAPE_ENV]).open("a"))  # noqa: SIM115 - open for the process's life
engine.open_channel = _taped_channel  # type: ignore[attr-defined]  # not exported, but used
