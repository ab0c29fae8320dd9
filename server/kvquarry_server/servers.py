"""The gRPC servers: one that engines connect to, and one for probes that know only TCP."""

from dataclasses import dataclass

import grpc
from grpc_reflection.v1alpha import reflection

from kvquarry.v1alpha import (
    admin_pb2,
    admin_pb2_grpc,
    pool_pb2,
    pool_pb2_grpc,
    worker_pb2,
    worker_pb2_grpc,
)
from kvquarry_server.admin_servicer import AdminServicer
from kvquarry_server.health import Health
from kvquarry_server.metrics import Snapshot
from kvquarry_server.pool_servicer import PoolServicer
from kvquarry_server.registry import Registry
from kvquarry_server.telemetry import Telemetry
from kvquarry_server.worker_servicer import WorkerServicer

#: Full names of what the service serves, for health and reflection.
SERVICE_NAMES: tuple[str, ...] = tuple(
    str(descriptor.full_name)
    for module in (pool_pb2, worker_pb2, admin_pb2)
    for descriptor in module.DESCRIPTOR.services_by_name.values()
)

# A client that pings more often than this is sent away with GOAWAY too_many_pings. Clients and
# proxies ping every 10 s, also between calls; gRPC's own default permits one ping in 5 minutes.
_SHORTEST_PING_INTERVAL_MS = 500
# Calls at a time on one connection, of a proxy for instance; more are not begun by the peer.
_MOST_CALLS_PER_CONNECTION = 256
# A connection that carries no call for so long is closed; who needs it again dials again.
_LONGEST_IDLE_MS = 300_000


@dataclass(frozen=True, slots=True)
class Transport:
    """What the data path puts up with.

    Attributes:
        max_message_bytes: The largest message it takes.
        keepalive_s: How long a peer may be silent before it is asked whether it is alive, and then
            again before it is given up. One that lost its power sends no farewell.
    """

    max_message_bytes: int
    keepalive_s: float


def data_server(
    registry: Registry,
    boot_id: str,
    telemetry: Telemetry,
    snapshot: Snapshot,
    transport: Transport,
) -> grpc.aio.Server:
    """The server that engines and ``kvquarry status`` connect to."""
    server = grpc.aio.server(options=_data_options(transport))
    pool_pb2_grpc.add_PoolServiceServicer_to_server(
        PoolServicer(registry, boot_id, telemetry), server
    )
    worker_pb2_grpc.add_WorkerServiceServicer_to_server(
        WorkerServicer(registry, boot_id, telemetry), server
    )
    admin_pb2_grpc.add_AdminServiceServicer_to_server(AdminServicer(registry, snapshot), server)
    return server


def describe_itself(server: grpc.aio.Server) -> None:
    """Let a server tell its API to whoever asks."""
    names = (*SERVICE_NAMES, *Health.SERVICE_NAMES, reflection.SERVICE_NAME)
    reflection.enable_server_reflection(names, server)


def probe_server() -> grpc.aio.Server:
    """A server that answers probes and nothing else: it may listen where engines must not."""
    return grpc.aio.server(options=[("grpc.so_reuseport", 0)])


def _data_options(transport: Transport) -> list[tuple[str, int]]:
    keepalive_ms = int(transport.keepalive_s * 1000)
    return [
        ("grpc.max_receive_message_length", transport.max_message_bytes),
        # Answers may be larger than questions; the client sets what it takes.
        ("grpc.max_send_message_length", -1),
        ("grpc.max_concurrent_streams", _MOST_CALLS_PER_CONNECTION),
        ("grpc.max_connection_idle_ms", _LONGEST_IDLE_MS),
        ("grpc.keepalive_time_ms", keepalive_ms),
        ("grpc.keepalive_timeout_ms", keepalive_ms),
        # Without this one a ping that was in flight already is waited for a minute.
        ("grpc.http2.ping_timeout_ms", keepalive_ms),
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.max_pings_without_data", 0),
        ("grpc.http2.min_ping_interval_without_data_ms", _SHORTEST_PING_INTERVAL_MS),
        # Two services on one port would each get some of the calls.
        ("grpc.so_reuseport", 0),
    ]
