"""Whether the service may be sent work: NOT_SERVING only while it starts and while it drains.

Nothing else makes it so: in a pod, a sidecar that is not ready takes its engine out of service.
"""

from typing import ClassVar

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc


class Health:
    """The standard health service, on any number of servers."""

    SERVICE_NAMES: ClassVar[tuple[str, ...]] = (health.SERVICE_NAME,)

    def __init__(self, service_names: tuple[str, ...]) -> None:
        self._names = (health.OVERALL_HEALTH, *service_names)
        self._servicer = health.aio.HealthServicer()  # type: ignore[attr-defined]  # stubs lack it

    def add_to(self, server: grpc.aio.Server) -> None:
        """Let a server answer for the health of this service."""
        health_pb2_grpc.add_HealthServicer_to_server(self._servicer, server)

    async def starting(self) -> None:
        """Not yet."""
        for name in self._names:
            await self._servicer.set(name, health_pb2.HealthCheckResponse.NOT_SERVING)

    async def serving(self) -> None:
        """Now."""
        for name in self._names:
            await self._servicer.set(name, health_pb2.HealthCheckResponse.SERVING)

    async def draining(self) -> None:
        """Never again."""
        await self._servicer.enter_graceful_shutdown()
