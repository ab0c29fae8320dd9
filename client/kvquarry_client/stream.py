"""One connection's ordered stream of batches, without memory of earlier connections."""

import queue
from collections.abc import Callable, Iterator

import grpc

from kvquarry.v1alpha import pool_pb2, pool_pb2_grpc


class BatchStream:
    """Sends batches and reads their results in the same order."""

    def __init__(self, channel: grpc.Channel, pool_id: str, incarnation: int) -> None:
        self._channel = channel
        self._hello = pool_pb2.Hello(pool_id=pool_id, incarnation=incarnation)
        self._outbox: queue.SimpleQueue[pool_pb2.AttachRequest | None] = queue.SimpleQueue()
        self._responses: Iterator[pool_pb2.AttachResponse] = iter(())
        self._cancel: Callable[[], object] = _nothing_to_cancel

    def start(self) -> pool_pb2.AttachResponse:
        """Say hello and wait for the welcome.

        Raises:
            grpc.RpcError: The service refused, or cannot be reached.
        """
        self._outbox.put(pool_pb2.AttachRequest(hello=self._hello))
        requests: Iterator[pool_pb2.AttachRequest] = iter(self._outbox.get, None)
        call = pool_pb2_grpc.PoolServiceStub(self._channel).Attach(requests)
        self._responses, self._cancel = call, call.cancel
        return self.read()

    def send(self, batch: pool_pb2.Batch) -> None:
        """Send a batch; its result will be read later."""
        self._outbox.put(pool_pb2.AttachRequest(batch=batch))

    def read(self) -> pool_pb2.AttachResponse:
        """Wait for the next response.

        Raises:
            grpc.RpcError: The stream broke.
        """
        try:
            return next(self._responses)
        except StopIteration:
            raise StreamEnded from None

    def close(self) -> None:
        """End the stream from this side."""
        self._outbox.put(None)
        self._cancel()


class StreamEnded(grpc.RpcError):
    """The service ended the stream without a word: it is going away."""

    def code(self) -> grpc.StatusCode:
        """As a broken connection."""
        return grpc.StatusCode.UNAVAILABLE

    def trailing_metadata(self) -> tuple[()]:
        """There is none."""
        return ()


def _nothing_to_cancel() -> None:
    """Before the stream was started."""
