"""The one table from what can go wrong to how gRPC says it.

An error travels as ``google.rpc.Status`` with an ``ErrorInfo`` in the trailer
``grpc-status-details-bin``; clients read ``ErrorInfo.reason``, never the text.
"""

from dataclasses import dataclass, field

from google.protobuf import any_pb2
from grpc import StatusCode

from kvquarry.v1alpha import status_pb2
from kvquarry_core.errors import Reason, UnknownPolicy, UsageError
from kvquarry_server.faults import ServiceError, ServiceReason

#: Names whose reasons these are, as ``ErrorInfo.domain`` asks.
ERROR_DOMAIN = "kvquarry"
#: Where gRPC clients look for the details of a status.
DETAILS_TRAILER = "grpc-status-details-bin"

_ERROR_INFO_TYPE = "type.googleapis.com/google.rpc.ErrorInfo"
# The text is sent twice, once percent-encoded and once in base64, and clients take 8 KiB of
# trailers by default. Guarded by test_the_longest_error_still_reaches_the_client.
_LONGEST_MESSAGE_BYTES = 1024

STATUS_OF: dict[Reason | ServiceReason, StatusCode] = {
    Reason.UNKNOWN_REQUEST: StatusCode.NOT_FOUND,
    Reason.DUPLICATE_REQUEST: StatusCode.ALREADY_EXISTS,
    Reason.UNKNOWN_GROUP: StatusCode.INVALID_ARGUMENT,
    Reason.UNKNOWN_POLICY: StatusCode.INVALID_ARGUMENT,
    Reason.UNKNOWN_BLOCK: StatusCode.INVALID_ARGUMENT,
    Reason.NOT_GRANTED: StatusCode.FAILED_PRECONDITION,
    Reason.NOT_HELD: StatusCode.FAILED_PRECONDITION,
    Reason.NOT_SOLE_OWNER: StatusCode.FAILED_PRECONDITION,
    Reason.ALREADY_COMMITTED: StatusCode.FAILED_PRECONDITION,
    Reason.INVALID_ARGUMENT: StatusCode.INVALID_ARGUMENT,
    Reason.INVALID_GROUPS: StatusCode.INVALID_ARGUMENT,
    Reason.POOL_TOO_SMALL: StatusCode.INVALID_ARGUMENT,
    Reason.LAYOUT_MISMATCH: StatusCode.FAILED_PRECONDITION,
    Reason.BOOKS_DIFFER: StatusCode.FAILED_PRECONDITION,
    Reason.WORKERS_NOT_REGISTERED: StatusCode.FAILED_PRECONDITION,
    ServiceReason.UNKNOWN_POOL: StatusCode.NOT_FOUND,
    ServiceReason.STALE_INCARNATION: StatusCode.FAILED_PRECONDITION,
    ServiceReason.SUPERSEDED: StatusCode.ABORTED,
    ServiceReason.OUT_OF_ORDER: StatusCode.FAILED_PRECONDITION,
    ServiceReason.ANSWER_FORGOTTEN: StatusCode.FAILED_PRECONDITION,
    ServiceReason.WORKER_MISMATCH: StatusCode.FAILED_PRECONDITION,
    ServiceReason.TOO_MANY_POOLS: StatusCode.RESOURCE_EXHAUSTED,
    ServiceReason.TOO_MANY_BLOCKS: StatusCode.RESOURCE_EXHAUSTED,
    ServiceReason.TOO_MANY_REQUESTS: StatusCode.RESOURCE_EXHAUSTED,
    ServiceReason.TOO_MANY_STRANGERS: StatusCode.RESOURCE_EXHAUSTED,
    ServiceReason.DRAINING: StatusCode.UNAVAILABLE,
    ServiceReason.POOL_BROKEN: StatusCode.INTERNAL,
}


@dataclass(frozen=True, slots=True)
class WireError:
    """An error as it travels, in a status or inside the answer to a batch."""

    reason: Reason | ServiceReason
    message: str
    metadata: dict[str, str] = field(default_factory=dict)

    @property
    def code(self) -> StatusCode:
        """The gRPC status for this reason."""
        return STATUS_OF[self.reason]

    def details(self) -> bytes:
        """The content of :data:`DETAILS_TRAILER`."""
        info = status_pb2.ErrorInfo(
            reason=self.reason.value, domain=ERROR_DOMAIN, metadata=self.metadata
        )
        packed = any_pb2.Any(type_url=_ERROR_INFO_TYPE, value=info.SerializeToString())
        number, _ = self.code.value
        status = status_pb2.StatusDetails(code=number, message=self.message, details=[packed])
        return status.SerializeToString()


def wire_error(error: UsageError | ServiceError, **metadata: str) -> WireError:
    """An error of ours, ready to travel."""
    if isinstance(error, UnknownPolicy):
        metadata |= {"policy_kind": error.kind, "offered": _shortened(", ".join(error.offered))}
    return WireError(error.reason, _shortened(str(error)), metadata)


def _shortened(message: str) -> str:
    encoded = message.encode()
    if len(encoded) <= _LONGEST_MESSAGE_BYTES:
        return message
    return encoded[:_LONGEST_MESSAGE_BYTES].decode(errors="ignore") + " ..."
