"""One connection's ordered stream of batches, without memory of earlier connections."""

import queue
import threading
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

import grpc

from kvquarry.v1alpha import pool_pb2, pool_pb2_grpc

_WELCOME_TIMEOUT_S = 10.0
#: Half of the least that a service may be told to take (``--max-message-bytes``): what is longer
#: gains nothing, and a batch that was taken alone must not be refused together with others.
_MOST_BYTES_SHARED = 32 << 10


class BatchStream:
    """Sends batches and reads their results in the same order."""

    def __init__(self, channel: grpc.Channel, pool_id: str, incarnation: int) -> None:
        self._channel = channel
        self._hello = pool_pb2.Hello(pool_id=pool_id, incarnation=incarnation)
        self._outbox: queue.SimpleQueue[pool_pb2.AttachRequest | None] = queue.SimpleQueue()
        self._call: Any = None

    def start(self) -> pool_pb2.AttachResponse:
        """Say hello and wait for the welcome.

        Raises:
            grpc.RpcError: The service refused, or cannot be reached.
        """
        self._outbox.put(pool_pb2.AttachRequest(hello=self._hello))
        self._call = pool_pb2_grpc.PoolServiceStub(self._channel).Attach(self._requests())
        # The stream as a whole has no deadline, so the wait for its first word needs one.
        deadline = threading.Timer(_WELCOME_TIMEOUT_S, self._call.cancel)
        deadline.start()
        try:
            return self.read()
        finally:
            deadline.cancel()

    def send(self, batch: pool_pb2.AttachRequest) -> None:
        """Send a batch; its result will be read later."""
        self._outbox.put(batch)

    def read(self) -> pool_pb2.AttachResponse:
        """Wait for the next response.

        Raises:
            grpc.RpcError: The stream broke.
        """
        try:
            response: pool_pb2.AttachResponse = next(self._call)
        except StopIteration:
            raise StreamEnded from None
        return response

    def when_ended(self, tell: Callable[[], object]) -> None:
        """Call back once, from whatever thread, when the started stream ends or has ended."""
        if not self._call.add_callback(tell):
            tell()

    def failure(self) -> grpc.RpcError:
        """Why the stream ended."""
        if self._call.code() is grpc.StatusCode.OK:
            return StreamEnded()
        failure: grpc.RpcError = self._call
        return failure

    def close(self) -> None:
        """End the stream from this side."""
        self._outbox.put(None)
        if self._call is not None:
            self._call.cancel()

    def _requests(self) -> Iterator[pool_pb2.AttachRequest]:
        """What gRPC's thread sends, when it comes to run: mostly as the engine's thread waits.

        So what a step did and what the next one asks share a message, which costs both sides more
        than what is in it.
        """
        waiting: deque[pool_pb2.AttachRequest | None] = deque()
        while True:
            if not waiting:
                waiting.append(self._outbox.get())
            while not self._outbox.empty():
                waiting.append(self._outbox.get())
            message = waiting.popleft()
            if message is None:
                return
            while waiting and (other := waiting[0]) is not None and _may_share(message, other):
                waiting.popleft()
                message = _joined(message, other)
            yield message


class StreamEnded(grpc.RpcError):
    """The service ended the stream without a word: it is going away."""

    def code(self) -> grpc.StatusCode:
        """As a broken connection."""
        return grpc.StatusCode.UNAVAILABLE

    def trailing_metadata(self) -> tuple[()]:
        """There is none."""
        return ()


def _may_share(message: pool_pb2.AttachRequest, other: pool_pb2.AttachRequest) -> bool:
    """Whether two messages are batches that fit into one."""
    size_bytes: int = message.ByteSize() + other.ByteSize()
    return message.HasField("batch") and size_bytes <= _MOST_BYTES_SHARED


def _joined(
    message: pool_pb2.AttachRequest, other: pool_pb2.AttachRequest
) -> pool_pb2.AttachRequest:
    """The batches of both; those that were given are kept, to be sent again."""
    joined = pool_pb2.AttachRequest()
    joined.CopyFrom(message)
    joined.following.add().CopyFrom(other.batch)
    joined.following.extend(other.following)
    return joined
