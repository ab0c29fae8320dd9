"""What an engine's thread has sent and gRPC's has not come for: it may be taken back."""

import queue
import threading
from collections import deque
from collections.abc import Collection, Iterator, Sequence

from kvquarry.v1alpha import pool_pb2

#: Half of the least that a service may be told to take (``--max-message-bytes``): what is longer
#: gains nothing, and a batch that was taken alone must not be refused together with others.
_MOST_BYTES_SHARED = 32 << 10
#: What a thread takes to wake up and more; one whose connection broke does not come at all.
_AT_ONCE_S = 0.001


class Outbox:
    """Messages of one connection in order: one thread puts them in, gRPC's iterates over them.

    That mostly comes to run as the engine's thread waits. So what a step did and what the next one
    asks share a message, which costs both sides more than what is in it.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._messages: deque[pool_pb2.AttachRequest] = deque()
        self._is_closed = False
        # Held while there are messages: an event that costs nothing until somebody waits for it.
        self._waiting = threading.Lock()
        # Wakes gRPC's thread; a lock with a condition would cost the engine's thread more.
        self._bell: queue.SimpleQueue[None] = queue.SimpleQueue()

    def __len__(self) -> int:
        """Messages that gRPC has not come for."""
        return len(self._messages)

    def put(self, message: pool_pb2.AttachRequest) -> None:
        """Send a message, once gRPC comes for it."""
        with self._lock:
            self._messages.append(message)
            self._waiting.acquire(blocking=False)
        self._bell.put(None)

    def take_back(self, most: int) -> int:
        """Take back as many of the last ``most`` messages as gRPC has not come for."""
        with self._lock:
            num_taken = min(most, len(self._messages))
            for _ in range(num_taken):
                self._messages.pop()
            if num_taken and not self._messages:
                self._waiting.release()
        return num_taken

    def wait_until_taken(self) -> None:
        """Let gRPC's thread come for what is here, if it comes at once.

        It cannot while the caller runs Python. Whoever needs an answer had better stand back before
        it prepares to read that. Only who puts messages in may wait.
        """
        if self._waiting.acquire(timeout=_AT_ONCE_S):
            self._waiting.release()

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
            if taken:
                self._waiting.release()
        return taken


def num_that_fit(
    message: pool_pb2.AttachRequest, others: Collection[pool_pb2.AttachRequest]
) -> int:
    """How many of the next messages may share one with this batch."""
    if not others or not message.HasField("batch"):
        return 0
    num_bytes = message.ByteSize()
    for number, one in enumerate(others):
        num_bytes += one.ByteSize()
        if num_bytes > _MOST_BYTES_SHARED:
            return number
    return len(others)


def _shared(messages: deque[pool_pb2.AttachRequest]) -> Iterator[pool_pb2.AttachRequest]:
    """The messages, joined with their neighbours as far as these fit."""
    while messages:
        message = messages.popleft()
        num_along = num_that_fit(message, messages)
        along = [messages.popleft() for _ in range(num_along)]
        yield _with_following(message, along) if along else message


def _with_following(
    message: pool_pb2.AttachRequest, others: Sequence[pool_pb2.AttachRequest]
) -> pool_pb2.AttachRequest:
    """All batches in one message; those that were given are kept, to be sent again."""
    whole = pool_pb2.AttachRequest()
    whole.CopyFrom(message)
    for one in others:
        whole.following.append(one.batch)
        whole.following.extend(one.following)
    return whole
