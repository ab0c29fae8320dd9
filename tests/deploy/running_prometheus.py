"""A real Prometheus in a process of its own, on a port that was free."""

import json
import re
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

_START_TIMEOUT_S = 20
_CALL_TIMEOUT_S = 5
_STOP_TIMEOUT_S = 20


class RunningPrometheus:
    """The questions tests put to it."""

    def __init__(self, address: str) -> None:
        self._address = address

    def series_names(self) -> set[str]:
        """The names of all series it has stored."""
        return set(self._get("label/__name__/values"))

    def value(self, query: str) -> float | None:
        """The value of an expression that gives one series, or None while it gives none."""
        result = self._get("query", query=query)["result"]
        return float(result[0]["value"][1]) if result else None

    def _get(self, path: str, **parameters: str) -> Any:  # noqa: ANN401 - JSON
        url = f"http://{self._address}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
        with urllib.request.urlopen(url, timeout=_CALL_TIMEOUT_S) as answer:
            return json.load(answer)["data"]


@contextmanager
def running_prometheus(binary: str, config: str, folder: Path) -> Iterator[RunningPrometheus]:
    """Start a Prometheus with a configuration, wait until it listens, and stop it at the end."""
    config_file, log_file = folder / "prometheus.yml", folder / "prometheus.log"
    config_file.write_text(config)
    command = [
        binary,
        f"--config.file={config_file}",
        f"--storage.tsdb.path={folder / 'data'}",
        "--web.listen-address=127.0.0.1:0",
    ]
    with log_file.open("w") as log, subprocess.Popen(command, stderr=log) as process:
        try:
            yield RunningPrometheus(_wait_for_address(log_file))
        finally:
            process.terminate()
            process.wait(_STOP_TIMEOUT_S)


def _wait_for_address(log_file: Path) -> str:
    deadline = time.monotonic() + _START_TIMEOUT_S
    while time.monotonic() < deadline:
        log = log_file.read_text()
        found = re.search(r'"Listening on"\s+address=(\S+)', log)
        if found is not None and "ready to receive web requests" in log:
            return found[1]
        time.sleep(0.05)
    raise AssertionError(f"Prometheus does not listen:\n{log_file.read_text()}")
