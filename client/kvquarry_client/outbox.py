"""What an engine's thread has sent and gRPC's has not come for: it may be taken back."""

import queue
import threading
from collections import deque
from collections.abc import Iterator, Sequence

from kvquarry.v1alpha import pool_pb2

#: Half of the least that a service may be told to take (``--max-message-bytes``): what is longer
#: gains nothing, and a batch that was taken alone must not be refused together with others.
_MOST_BYTES_SHARED = 32 << 10


class Outbox:
    """Messages of one connection in order: one thread puts them in, gRPC's iterates over them.

    That mostly comes to run as the engine's thread waits. So what a step did and what the next one
    asks share a message, which costs both sides more than what is in it.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._messages: deque[pool_pb2.AttachRequest] = deque()
        self._is_closed = False
        # Wakes gRPC's thread; a lock with a condition would cost the engine's thread more.
        self._bell: queue.SimpleQueue[None] = queue.SimpleQueue()

    def __len__(self) -> int:
        """Messages that gRPC has not come for."""
        return len(self._messages)

    def put(self, message: pool_pb2.AttachRequest) -> None:
        """Send a message, once gRPC comes for it."""
        with self._lock:
            self._messages.append(message)
        self._bell.put(None)

    def take_back(self, most: int) -> int:
        """Take back as many of the last ``most`` messages as gRPC has not come for."""
        with self._lock:
            num_taken = min(most, len(self._messages))
            for _ in range(num_taken):
                self._messages.pop()
        return num_taken

    def close(self) -> None:
        """No message comes after those that were put in."""
        self._is_closed = True
        self._bell.put(None)

    def __iter__(self) -> Iterator[pool_pb2.AttachRequest]:
        """Everything until the end, in as few messages as may be."""
        while True:
            self._bell.get()
            is_last = self._is_closed
            yield from _shared(self._take_all())
            if is_last:
                return

    def _take_all(self) -> deque[pool_pb2.AttachRequest]:
        with self._lock:
            taken, self._messages = self._messages, deque()
        return taken


def _shared(messages: deque[pool_pb2.AttachRequest]) -> Iterator[pool_pb2.AttachRequest]:
    """The messages, joined with their neighbours as far as these fit."""
    while messages:
        message = messages.popleft()
        size_bytes = message.ByteSize()
        joined = []
        while messages and message.HasField("batch"):
            size_bytes += messages[0].ByteSize()
            if size_bytes > _MOST_BYTES_SHARED:
                break
            joined.append(messages.popleft().batch)
        yield _with_following(message, joined) if joined else message


def _with_following(
    message: pool_pb2.AttachRequest, batches: Sequence[pool_pb2.Batch]
) -> pool_pb2.AttachRequest:
    """All batches in one message; those that were given are kept, to be sent again."""
    whole = pool_pb2.AttachRequest()
    whole.CopyFrom(message)
    whole.following.extend(batches)
    return whole
