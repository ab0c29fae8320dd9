"""An attachment's stream that outlives its connections.

::

    engine's thread    send ... send ...... read            (waits)         read
    connection         ================x                         ===============
    keeper's thread                    dial, dial, ... welcome: send unread again

The open stream holds the pool's lease. So it is replaced as soon as it breaks, by a thread of its
own, also while the engine is idle and sends nothing.
"""

import logging
import queue
import threading
import time
from collections import deque
from collections.abc import Callable

import grpc

from kvquarry.v1alpha import pool_pb2
from kvquarry_client.errors import ClientError, PoolLost, ServiceError, explained, may_be_retried
from kvquarry_client.stream import BatchStream
from kvquarry_client.target import Target
from kvquarry_client.waiting import RETRY_S, WaitReport, nobody_answered, retry_while_away

logger = logging.getLogger(__name__)

#: An engine that stays idle while its service is away says so more and more seldom.
_LONGEST_PAUSE_S = 60.0
#: A connection that held for so long is no flicker; the next one may be opened at once.
_SETTLED_S = 5.0
_LOOK_S = 5.0


class LastingStream:
    """Batches reach the service once and in order, whatever breaks.

    A batch is kept until its result, or that of a later one, was read; on a new connection all kept
    batches are sent again, and those the service knows already return their first answers.

    One engine's thread calls it. Nobody holds the lock while waiting for the network.
    """

    def __init__(
        self, new_stream: Callable[[], BatchStream], target: Target, *, patience_s: float
    ) -> None:
        self._new_stream = new_stream
        self._target = target
        self._patience_s = patience_s
        self._unread: deque[pool_pb2.AttachRequest] = deque()
        # Batches that this connection was the first to be given.
        self._num_fresh = 0
        self._stream: BatchStream | None = None
        self._failure: Exception | None = None
        self._reading_since: float | None = None
        self._changed = threading.Condition()
        self._is_closed = threading.Event()
        self._ended: queue.SimpleQueue[BatchStream | None] = queue.SimpleQueue()

    @property
    def num_unread(self) -> int:
        """Batches that are kept."""
        return len(self._unread)

    def start(self) -> None:
        """Connect, and stay connected from now on.

        Raises:
            ServiceUnavailable: Nobody answered in time.
            ServiceError: The service refused.
        """
        fresh = retry_while_away(self._dial, self._target, timeout_s=self._patience_s)
        self._take_over(fresh)
        threading.Thread(target=self._keep, name="kvquarry-stream", daemon=True).start()

    def send(self, batch: pool_pb2.AttachRequest) -> None:
        """Send a batch, now or when there is a connection; its result will be read later."""
        with self._changed:
            self._unread.append(batch)
            self._num_fresh += 1
            self._current().send(batch)

    @property
    def num_waiting(self) -> int:
        """The last batches that certainly nobody received so far."""
        return min(self._current().num_waiting, self._num_fresh)

    def take_back(self, most: int) -> int:
        """Take back as many of the last ``most`` batches as certainly nobody received."""
        with self._changed:
            num_taken = self._current().take_back(min(most, self._num_fresh))
            self._num_fresh -= num_taken
            for _ in range(num_taken):
                self._unread.pop()
        return num_taken

    def read(self) -> pool_pb2.BatchResult:
        """Wait for the next result; it also says that the quiet batches before it were applied.

        Raises:
            ServiceUnavailable: The service was away for too long.
            PoolLost: It came back without the pool.
            MessageTooLarge: A batch or its result does not fit into a message.
            ServiceError: It ended the stream for another reason.
        """
        self._reading_since = time.monotonic()
        try:
            result = self._read_until(self._reading_since + self._patience_s)
        finally:
            self._reading_since = None
        self._forget_until(result.number)
        return result

    def close(self) -> None:
        """End the stream from this side, for good; closing again is harmless."""
        self._is_closed.set()
        self._ended.put(None)
        if self._stream is not None:
            self._stream.close()

    def _read_until(self, give_up_at: float) -> pool_pb2.BatchResult:
        """The next result, of whatever stream brings it."""
        while True:
            stream = self._current()
            try:
                return stream.read().result
            except grpc.RpcError:
                self._wait_for_another(stream, give_up_at)

    def _current(self) -> BatchStream:
        assert self._stream is not None, "the stream was not started"
        return self._stream

    def _forget_until(self, number: int) -> None:
        with self._changed:
            while self._unread and _last_number(self._unread[0]) <= number:
                self._unread.popleft()

    def _wait_for_another(self, broken: BatchStream, give_up_at: float) -> None:
        """Wait until the keeper has replaced a stream, or has found that it cannot."""

        def is_settled() -> bool:
            return self._stream is not broken or self._failure is not None

        with self._changed:
            self._changed.wait_for(is_settled, timeout=give_up_at - time.monotonic())
            if self._failure is not None:
                raise self._failure
        # Also when there is always another one, but none that answers.
        if time.monotonic() >= give_up_at:
            raise nobody_answered(self._target, self._patience_s)

    def _keep(self) -> None:
        """The keeper's life: replace every stream that ends."""
        pause_s = 0.0
        found_at = time.monotonic()
        while (ended := self._next_end()) is not None and self._failure is None:
            ended.close()
            has_settled = time.monotonic() - found_at >= _SETTLED_S
            pause_s = 0.0 if has_settled else min(max(2 * pause_s, RETRY_S), _SETTLED_S)
            self._is_closed.wait(pause_s)
            try:
                fresh = self._replacement(ended.failure())
            except (ClientError, grpc.RpcError) as failure:
                self._give_up(failure)
                return
            if fresh is None:
                return
            self._take_over(fresh)
            found_at = time.monotonic()
            logger.warning("found kvquarry at %s again", self._target)

    def _next_end(self) -> BatchStream | None:
        """The next stream that ends, None when closed; meanwhile, look after who waits."""
        while True:
            try:
                return self._ended.get(timeout=_LOOK_S)
            except queue.Empty:
                self._look_after_reader()

    def _look_after_reader(self) -> None:
        """A service that answers pings and nothing else must not be waited for in silence."""
        since = self._reading_since
        if since is None:
            return
        waited_s = time.monotonic() - since
        if waited_s >= self._patience_s:
            self._give_up(nobody_answered(self._target, self._patience_s))
            self._current().close()
        elif waited_s >= _LOOK_S:
            logger.warning(
                "waiting for an answer of kvquarry at %s (%.0f s so far)", self._target, waited_s
            )

    def _replacement(self, error: grpc.RpcError) -> BatchStream | None:
        """A new stream, however long that takes; None when there is no need of one any more."""
        if self._is_closed.is_set():
            return None
        if not may_be_retried(error):
            raise explained(error)
        logger.warning("lost kvquarry at %s (%s); connecting again", self._target, error.code())
        report = WaitReport(self._target, longest_pause_s=_LONGEST_PAUSE_S)
        while not self._is_closed.is_set():
            try:
                return self._dial()
            except grpc.RpcError as again:
                if not may_be_retried(again):
                    raise self._refusal(again) from None
            except ValueError:
                # So says a channel that was closed meanwhile.
                if not self._is_closed.is_set():
                    raise
            report.say_if_due()
            self._is_closed.wait(RETRY_S)
        return None

    def _dial(self) -> BatchStream:
        """Connect once."""
        stream = self._new_stream()
        try:
            stream.start()
        except grpc.RpcError:
            stream.close()
            raise
        return stream

    def _take_over(self, fresh: BatchStream) -> None:
        """Go on with a new stream, from the first batch whose result is missing."""
        with self._changed:
            for batch in self._unread:
                fresh.send(batch)
            self._stream = fresh
            self._num_fresh = 0
            self._changed.notify_all()
        if self._is_closed.is_set():
            fresh.close()
        fresh.when_ended(lambda: self._ended.put(fresh))

    def _give_up(self, failure: Exception) -> None:
        if not self._is_closed.is_set():
            logger.error("%s", failure)
        with self._changed:
            self._failure = failure
            self._changed.notify_all()

    def _refusal(self, error: grpc.RpcError) -> Exception:
        """Why a service that is there again does not take this engine back."""
        refusal = explained(error)
        if not isinstance(refusal, ServiceError) or refusal.reason != "UNKNOWN_POOL":
            return refusal
        lost = PoolLost(
            f"kvquarry at {self._target} no longer knows this engine's pool: the service was "
            "restarted, or was out of reach for longer than its lease; restart the engine"
        )
        lost.__cause__ = refusal
        return lost


def _last_number(message: pool_pb2.AttachRequest) -> int:
    """That of the last batch in a message."""
    last = message.following[-1] if message.following else message.batch
    return last.number
