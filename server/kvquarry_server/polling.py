"""How gRPC waits for its sockets: it reads that from the environment when it is first imported."""

import os
from collections.abc import MutableMapping

_VARIABLE = "GRPC_EXPERIMENTS"
# With its event engine, more threads have to wake up for every message. See docs/adr/0017.
_WITHOUT_EVENT_ENGINE = "-event_engine_listener"


def prefer_fewer_threads(environment: MutableMapping[str, str] = os.environ) -> None:
    """Have a server read its sockets without gRPC's event engine, unless somebody said how.

    Call before anything imports ``grpc``.
    """
    environment.setdefault(_VARIABLE, _WITHOUT_EVENT_ENGINE)
