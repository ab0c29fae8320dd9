"""The service's life: start, drain, stop.

::

    starting             serving                  draining                  stopped
    |-- NOT_SERVING -->|-- SERVING --> SIGTERM -->|-- NOT_SERVING, no new pools -->|
                                                  |<-- until the last stream ends, |
                                                  |    drain_s at most ----------->|
"""

import asyncio
import logging
import time
import uuid
from collections.abc import Awaitable, Callable, Iterable
from typing import IO

import grpc
from prometheus_client import CollectorRegistry

from kvquarry_core.policies import PolicyNames, installed_policies
from kvquarry_server import servers
from kvquarry_server.addresses import Address, TcpAddress, UnixAddress
from kvquarry_server.faults import Draining
from kvquarry_server.health import Health
from kvquarry_server.metrics import (
    MetricsEndpoint,
    PrometheusTelemetry,
    StatusCollector,
    on_loop,
)
from kvquarry_server.registry import Policy, Registry
from kvquarry_server.settings import ServeSettings
from kvquarry_server.sockets import bind, claim_socket
from kvquarry_server.status import Boot, ServiceStatus, status_of
from kvquarry_server.version import package_version

logger = logging.getLogger(__name__)

_SWEEP_S = 0.25
_DRAIN_POLL_S = 0.05
# For statuses that were just sent to reach their clients.
_LAST_WORDS_S = 0.5

Sleep = Callable[[float], Awaitable[None]]


class Service:
    """Everything one process serves.

    Raises:
        UsageError: A policy that was chosen for all pools is not to be had.
    """

    def __init__(self, settings: ServeSettings) -> None:
        self._settings = settings
        self._boot = Boot(uuid.uuid4().hex, package_version(), time.monotonic())
        policy = Policy(
            lease_s=settings.lease_s,
            attach_s=settings.attach_s,
            pool_policies=PolicyNames(
                settings.placement, settings.eviction, settings.relocation, settings.retention
            ),
            pin_cap=settings.pin_cap,
            catalog=installed_policies(),
        )
        # Who starts the service can mend it; its engines cannot.
        policy.catalog.make(policy.pool_policies)
        self._registry = Registry(policy, time.monotonic)
        self._health = Health(servers.SERVICE_NAMES)
        self._collectors = CollectorRegistry()
        self._servers: list[grpc.aio.Server] = []
        self._metrics: MetricsEndpoint | None = None
        self._sweep: asyncio.Task[None] | None = None
        self._found_at: list[str] = []
        self._claims: list[IO[bytes]] = []

    @property
    def announcement(self) -> str:
        """One line that says where everything is, once started."""
        return f"kvquarry serving on {' '.join(self._found_at)}"

    async def start(self) -> None:
        """Listen everywhere, and only then say SERVING.

        Raises:
            CannotListen: An address cannot be bound.
        """
        await self._health.starting()
        await self._start_data_server()
        if self._settings.metrics_listen is not None:
            self._start_metrics(self._settings.metrics_listen)
        if self._settings.health_listen is not None:
            await self._start_probe_server(self._settings.health_listen)
        self._sweep = asyncio.create_task(drop_lapsed_pools(self._registry, asyncio.sleep))
        await self._health.serving()

    async def drain(self) -> None:
        """Take no new pools, and let the engines go on for a while; then end their streams."""
        logger.info("draining for at most %.1f s", self._settings.drain_s)
        await self._health.draining()
        self._registry.drain()
        try:
            async with asyncio.timeout(self._settings.drain_s):
                while self._registry.num_streams:  # noqa: ASYNC110 - the registry knows no loop
                    await asyncio.sleep(_DRAIN_POLL_S)
        except TimeoutError:
            logger.info("drained by force streams=%d", self._registry.num_streams)
        # A stream that is left open would hold the server's own stop for all of its grace.
        farewell = "the service stops and forgets its pools; start the engine again when it is back"
        self._registry.end_streams(Draining(farewell))
        await asyncio.gather(*(server.stop(_LAST_WORDS_S) for server in self._servers))

    async def stop(self) -> None:
        """Stop at once whatever still runs."""
        has_served = self._sweep is not None
        if self._sweep is not None:
            self._sweep.cancel()
        await asyncio.gather(*(server.stop(None) for server in self._servers))
        if self._metrics is not None:
            await asyncio.to_thread(self._metrics.stop)
        for claim in self._claims:
            claim.close()
        if has_served:
            logger.info("stopped")

    def _status(self) -> ServiceStatus:
        return status_of(self._boot, self._registry)

    async def _start_data_server(self) -> None:
        server = servers.data_server(
            self._registry,
            self._boot.boot_id,
            PrometheusTelemetry(self._collectors),
            self._status,
            servers.Transport(self._settings.max_message_bytes, self._settings.keepalive_s),
        )
        self._health.add_to(server)
        if self._settings.has_reflection:
            servers.describe_itself(server)
        self._found_at += [str(one) for one in await self._start(server, self._settings.listen)]

    async def _start_probe_server(self, address: TcpAddress) -> None:
        server = servers.probe_server()
        self._health.add_to(server)
        (found_at,) = await self._start(server, (address,))
        self._found_at += ["health on", str(found_at)]

    async def _start(self, server: grpc.aio.Server, addresses: Iterable[Address]) -> list[Address]:
        addresses = list(addresses)
        self._servers.append(server)
        for address in addresses:
            if isinstance(address, UnixAddress):
                self._claims.append(claim_socket(address.path))
        found_at = [bind(server, address) for address in addresses]
        await server.start()
        return found_at

    def _start_metrics(self, address: TcpAddress) -> None:
        snapshot = on_loop(asyncio.get_running_loop(), self._status)
        self._collectors.register(StatusCollector(snapshot))
        metrics = MetricsEndpoint(self._collectors, address)
        metrics.start()
        self._metrics = metrics
        self._found_at += ["metrics on", metrics.url]


async def drop_lapsed_pools(registry: Registry, sleep: Sleep) -> None:
    """Look for lapsed leases for ever.

    A round that comes late is left out: while something else held the loop nobody was heard, and
    an engine that has come back in time must be let in before its lease is looked at.
    """
    while True:
        before = registry.clock()
        await sleep(_SWEEP_S)
        if registry.clock() - before < 2 * _SWEEP_S:
            registry.drop_lapsed()
