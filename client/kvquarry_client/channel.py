"""One way to dial the service."""

import grpc

from kvquarry_client.target import Target

#: Largest message either side accepts.
MAX_MESSAGE_BYTES = 16 << 20

_OPTIONS = [
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
    ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
    # A restarted service is found again within half a second instead of 1.7 s.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 500),
    # A service that hangs or a link that is cut is noticed, also when nothing is called.
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 5_000),
    # Without this one a ping that was in flight already is waited for a minute.
    ("grpc.http2.ping_timeout_ms", 5_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
    # Every engine has its own connection, also two of them in one process.
    ("grpc.use_local_subchannel_pool", 1),
]


def open_channel(target: Target) -> grpc.Channel:
    """A channel to a target that is not ``inproc:``. It connects when first used."""
    assert target.grpc_address is not None, "inproc: has no channel"
    return grpc.insecure_channel(target.grpc_address, options=_OPTIONS)
