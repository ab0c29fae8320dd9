"""One connection's ordered stream of batches, without memory of earlier connections."""

import threading
from collections.abc import Callable
from typing import Any

import grpc

from kvquarry.v1alpha import pool_pb2, pool_pb2_grpc
from kvquarry_client.outbox import Outbox

_WELCOME_TIMEOUT_S = 10.0


class BatchStream:
    """Sends batches and reads their results in the same order."""

    def __init__(self, channel: grpc.Channel, pool_id: str, incarnation: int) -> None:
        self._channel = channel
        self._hello = pool_pb2.Hello(pool_id=pool_id, incarnation=incarnation)
        self._outbox = Outbox()
        self._call: Any = None

    def start(self) -> pool_pb2.AttachResponse:
        """Say hello and wait for the welcome.

        Raises:
            grpc.RpcError: The service refused, or cannot be reached.
        """
        self._outbox.put(pool_pb2.AttachRequest(hello=self._hello))
        self._call = pool_pb2_grpc.PoolServiceStub(self._channel).Attach(iter(self._outbox))
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

    @property
    def num_waiting(self) -> int:
        """Batches that wait here to be sent."""
        return len(self._outbox)

    def take_back(self, most: int) -> int:
        """Take back as many of the last ``most`` batches as still wait here to be sent."""
        return self._outbox.take_back(most)

    def read(self) -> pool_pb2.AttachResponse:
        """Wait for the next response.

        Raises:
            grpc.RpcError: The stream broke.
        """
        self._outbox.wait_until_taken()
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
        self._outbox.close()
        if self._call is not None:
            self._call.cancel()


class StreamEnded(grpc.RpcError):
    """The service ended the stream without a word: it is going away."""

    def code(self) -> grpc.StatusCode:
        """As a broken connection."""
        return grpc.StatusCode.UNAVAILABLE

    def trailing_metadata(self) -> tuple[()]:
        """There is none."""
        return ()
