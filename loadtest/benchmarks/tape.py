"""Writes down what goes over a channel: the opening of a pool, and its stream both ways."""

from collections.abc import Callable, Iterator
from enum import Enum
from typing import Any

import grpc

from kvquarry.v1alpha import pool_pb2

_OPEN_POOL = "/OpenPool"


class Said(Enum):
    """What a message on the tape is."""

    OPENING = "opening"
    REQUEST = "request"
    RESPONSE = "response"


#: Is given every message, serialized, in the order in which it was sent or read.
Keep = Callable[[Said, bytes], None]


class Tape(
    grpc.UnaryUnaryClientInterceptor,  # type: ignore[type-arg]  # not at run time
    grpc.StreamStreamClientInterceptor,  # type: ignore[type-arg]
):
    """Between a client and its channel: ``grpc.intercept_channel(channel, Tape(keep))``."""

    def __init__(self, keep: Keep) -> None:
        self._keep = keep

    def intercept_unary_unary(
        self,
        continuation: Callable[..., Any],
        client_call_details: grpc.ClientCallDetails,
        request: pool_pb2.OpenPoolRequest,
    ) -> Any:  # noqa: ANN401 - gRPC's own call
        """See grpc."""
        if str(client_call_details.method).endswith(_OPEN_POOL):
            self._keep(Said.OPENING, request.SerializeToString())
        return continuation(client_call_details, request)

    def intercept_stream_stream(  # type: ignore[override]  # one method's messages, not any
        self,
        continuation: Callable[..., Iterator[pool_pb2.AttachResponse]],
        client_call_details: grpc.ClientCallDetails,
        request_iterator: Iterator[pool_pb2.AttachRequest],
    ) -> "_TapedCall":
        """See grpc."""
        call = continuation(client_call_details, self._kept(request_iterator))
        return _TapedCall(call, self._keep)

    def _kept(self, requests: Iterator[pool_pb2.AttachRequest]) -> Iterator[pool_pb2.AttachRequest]:
        for request in requests:
            self._keep(Said.REQUEST, request.SerializeToString())
            yield request


class _TapedCall:
    """A call whose responses are kept."""

    def __init__(self, call: Any, keep: Keep) -> None:  # noqa: ANN401 - gRPC's own call
        self._call = call
        self._keep = keep
        self.cancel: Callable[[], object] = call.cancel
        self.code: Callable[[], object] = call.code
        self.add_callback: Callable[[Callable[[], None]], bool] = call.add_callback

    def __iter__(self) -> Iterator[pool_pb2.AttachResponse]:
        return self

    def __next__(self) -> pool_pb2.AttachResponse:
        response: pool_pb2.AttachResponse = next(self._call)
        self._keep(Said.RESPONSE, response.SerializeToString())
        return response
