"""The service's figures for Prometheus, and where they are scraped.

Pools are read off a snapshot at each scrape, the one that ``kvquarry status`` shows, too; only
what no snapshot can tell is counted call by call.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator
from wsgiref.simple_server import WSGIServer

from prometheus_client import CollectorRegistry, Counter, Histogram, start_http_server
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from kvquarry_server.addresses import TcpAddress
from kvquarry_server.pool_metrics import POOL_METRICS
from kvquarry_server.sockets import CannotListen
from kvquarry_server.status import ServiceStatus

logger = logging.getLogger(__name__)

Snapshot = Callable[[], ServiceStatus]

_BATCH_BUCKETS_S = (
    50e-6, 100e-6, 200e-6, 500e-6, 1e-3, 2e-3, 5e-3, 10e-3, 20e-3, 50e-3, 0.1, 0.5, 2.0,
)  # fmt: skip
_SNAPSHOT_TIMEOUT_S = 5.0


class PrometheusTelemetry:
    """Counts calls as they happen. See :class:`kvquarry_server.telemetry.Telemetry`."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._errors = Counter(
            "kvquarry_rpc_errors_total",
            "Calls, and operations inside batches, that were refused as mistakes.",
            ("method", "reason"),
            registry=registry,
        )
        self._batches = Histogram(
            "kvquarry_batch_seconds",
            "Time from having read a batch to having its answer ready, turns of others included.",
            buckets=_BATCH_BUCKETS_S,
            registry=registry,
        )

    def refused(self, method: str, reason: str) -> None:
        """See :meth:`kvquarry_server.telemetry.Telemetry.refused`."""
        self._errors.labels(method, reason).inc()

    def applied_batch(self, seconds: float) -> None:
        """See :meth:`kvquarry_server.telemetry.Telemetry.applied_batch`."""
        self._batches.observe(seconds)


class StatusCollector(Collector):
    """Reads the service's status at each scrape."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot

    def describe(self) -> list[Metric]:
        """Nothing: registering takes no snapshot."""
        return []

    def collect(self) -> Iterator[Metric]:
        """One metric after another, each with all pools."""
        status = self._snapshot()
        yield GaugeMetricFamily("kvquarry_pools", "Pools held.", value=len(status.pools))
        build = GaugeMetricFamily("kvquarry_build_info", "Always 1.", labels=("version",))
        build.add_metric((status.version,), 1)
        yield build
        for metric in POOL_METRICS:
            yield metric.of(status.pools)


def on_loop(loop: asyncio.AbstractEventLoop, snapshot: Snapshot) -> Snapshot:
    """A snapshot for other threads: taken on the loop's own, where nothing moves meanwhile."""

    async def take() -> ServiceStatus:
        return snapshot()

    def wait() -> ServiceStatus:
        return asyncio.run_coroutine_threadsafe(take(), loop).result(_SNAPSHOT_TIMEOUT_S)

    return wait


class MetricsEndpoint:
    """The HTTP server that Prometheus scrapes, in threads of its own."""

    def __init__(self, registry: CollectorRegistry, address: TcpAddress) -> None:
        self._registry = registry
        self._address = address
        self._server: WSGIServer | None = None

    @property
    def url(self) -> str:
        """Where it listens, once started."""
        assert self._server is not None, "the endpoint was not started"
        return f"http://{self._address.host}:{self._server.server_port}/metrics"

    def start(self) -> None:
        """Listen.

        Raises:
            CannotListen: The address is in use or not of this machine.
        """
        try:
            self._server, _ = start_http_server(
                self._address.port, self._address.bare_host, self._registry
            )
        except OSError as error:
            raise CannotListen(f"cannot serve metrics on {self._address}: {error}") from error

    def stop(self) -> None:
        """Stop listening; waits for no scrape."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
