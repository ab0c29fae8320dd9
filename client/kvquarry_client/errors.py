"""What an engine can be told.

::

    ClientError
    |-- InvalidTarget       KVQUARRY_TARGET cannot be understood
    |-- ServiceUnavailable  nobody answers at the target
    |-- MessageTooLarge     a message is larger than service or client takes
    |-- PoolLost            the service no longer knows the engine's pool
    |-- Nonsense            the service answered what no service should
    |-- PlanMismatch        client and service cut the pool differently: versions differ
    `-- ServiceError        the service refused; ``reason`` says why, the text is for people
"""

from collections.abc import Mapping

import grpc

from kvquarry.v1alpha import status_pb2

_DETAILS_KEY = "grpc-status-details-bin"
#: Reasons that the service, or another life of it, will soon not give any more.
_TEMPORARY = frozenset({"DRAINING", "TOO_MANY_STRANGERS"})
_UNREACHABLE = (
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.CANCELLED,
    grpc.StatusCode.DEADLINE_EXCEEDED,
    grpc.StatusCode.UNKNOWN,
)


class ClientError(Exception):
    """Root of everything the client raises."""


class InvalidTarget(ClientError):
    """A target that cannot be understood; the message shows the forms that can."""


class ServiceUnavailable(ClientError):
    """Nobody answers at the target; the message names it and how long was waited."""


class MessageTooLarge(ClientError):
    """A message is larger than the service or the client takes."""


class PoolLost(ClientError):
    """The service was restarted, or the lease lapsed: nobody knows this engine's pool."""


class Nonsense(ClientError):
    """The service answered what no service of this version should; nothing it says can be used."""


class PlanMismatch(ClientError):
    """Client and service cut the same pool differently, so their versions differ."""


class ServiceError(ClientError):
    """The service refused a call.

    Attributes:
        reason: Stable, machine-readable cause, such as ``STALE_INCARNATION``.
        message: What to change, for people.
        metadata: Details by name.
    """

    def __init__(self, reason: str, message: str, metadata: Mapping[str, str]) -> None:
        super().__init__(f"{message} ({reason})")
        self.reason = reason
        self.message = message
        self.metadata = dict(metadata)


def typed_error(error: grpc.RpcError) -> ServiceError | None:
    """The service's own error inside a gRPC error, or None when it is the transport's."""
    for item in error.trailing_metadata() or ():
        if item.key == _DETAILS_KEY:
            return _decode(item.value)
    return None


def explained(error: grpc.RpcError) -> Exception:
    """The error to raise for one that cannot be retried."""
    typed = typed_error(error)
    if typed is not None:
        return typed
    if error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED:
        return MessageTooLarge(
            "a message between engine and service is larger than one of them takes: start the "
            "service with --max-message-bytes 16777216 or more"
        )
    return error


def may_be_retried(error: grpc.RpcError) -> bool:
    """Whether somebody may answer soon: nobody did, the connection broke, or he is leaving."""
    typed = typed_error(error)
    if typed is not None:
        return typed.reason in _TEMPORARY
    return error.code() in _UNREACHABLE


def _decode(value: str | bytes) -> ServiceError | None:
    assert isinstance(value, bytes), "keys that end in -bin carry bytes"
    status = status_pb2.StatusDetails.FromString(value)
    for detail in status.details:
        info = status_pb2.ErrorInfo.FromString(detail.value)
        return ServiceError(info.reason, status.message, info.metadata)
    return None
