"""A real Prometheus stores what a real service shows."""

import re
import subprocess
import time
import urllib.request
from pathlib import Path

from kvquarry.v1alpha import plan_pb2, pool_pb2, pool_pb2_grpc
from kvquarry_client.channel import open_channel
from kvquarry_client.target import parse_target
from tests.deploy import prometheus_config
from tests.deploy.running_prometheus import RunningPrometheus, running_prometheus
from tests.deploy.running_service import running_service
from tests.deploy.tools import of_machine

PACKAGE = "Debian: apt-get install prometheus"
SCRAPED_WITHIN_S = 20
CALL_TIMEOUT_S = 10


def test_promtool_accepts_the_configuration() -> None:
    command = [of_machine("promtool", PACKAGE), "check", "config", str(prometheus_config.CONFIG)]
    checked = subprocess.run(command, check=False, capture_output=True, text=True)
    assert checked.returncode == 0, checked.stderr


def test_prometheus_stores_every_figure_of_a_running_service(tmp_path: Path) -> None:
    binary = of_machine("prometheus", PACKAGE)
    with running_service() as service:
        open_a_pool(service.target)
        config = prometheus_config.with_target(service.metrics_address)
        shown = shown_names(service.metrics_address)
        with running_prometheus(binary, config, tmp_path) as prometheus:
            wait_for_value(prometheus, "kvquarry_pools", 1)
            assert prometheus.value('up{job="kvquarry"}') == 1
            assert shown <= prometheus.series_names()
    assert len(shown) > 10
    assert all(name.startswith(("kvquarry_", "python_", "process_")) for name in shown)


def open_a_pool(target: str) -> None:
    """A pool whose engine never comes: it is there until its first stream is overdue."""
    request = pool_pb2.OpenPoolRequest(
        engine="scraped",
        groups=[
            plan_pb2.GroupSpec(
                kind=plan_pb2.GROUP_KIND_FULL_ATTENTION,
                block_tokens=16,
                page_bytes=1024,
                layer_count=2,
                alignment_bytes=16,
            )
        ],
        pool_size_bytes=1 << 20,
        worker_count=1,
    )
    with open_channel(parse_target(target)) as channel:
        pool_pb2_grpc.PoolServiceStub(channel).OpenPool(request, timeout=CALL_TIMEOUT_S)


def shown_names(address: str) -> set[str]:
    """The names of all series on the service's page."""
    with urllib.request.urlopen(f"http://{address}/metrics", timeout=CALL_TIMEOUT_S) as page:
        text = page.read().decode()
    return set(re.findall(r"^([a-z_]+)", text, flags=re.MULTILINE))


def wait_for_value(prometheus: RunningPrometheus, query: str, expected: float) -> None:
    deadline = time.monotonic() + SCRAPED_WITHIN_S
    while prometheus.value(query) != expected:
        assert time.monotonic() < deadline, f"{query} is {prometheus.value(query)}"
        time.sleep(0.1)
