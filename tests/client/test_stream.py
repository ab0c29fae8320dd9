"""What waits to be sent shares a message; the channel is one that nobody sends through."""

import threading
from collections.abc import Callable, Iterator
from typing import cast

import grpc
import pytest

from kvquarry.v1alpha import pool_pb2
from kvquarry_client import outbox
from kvquarry_client.stream import BatchStream

#: The least that ``kvquarry serve --max-message-bytes`` takes.
LEAST_MOST_BYTES = 64 << 10


class Channel:
    """Welcomes whoever attaches, and leaves its messages where they wait."""

    def __init__(self) -> None:
        self.requests: Iterator[pool_pb2.AttachRequest] = iter(())

    def unary_unary(self, *_: object, **__: object) -> None:
        """Calls that no stream makes."""

    def stream_stream(self, *_: object, **__: object) -> Callable[..., "Channel"]:
        def attach(requests: Iterator[pool_pb2.AttachRequest]) -> Channel:
            self.requests = requests
            return self

        return attach

    def __next__(self) -> pool_pb2.AttachResponse:
        return pool_pb2.AttachResponse()

    def cancel(self) -> None:
        """Nothing is on its way."""


def sent(*batches: pool_pb2.AttachRequest) -> list[pool_pb2.AttachRequest]:
    """The messages that batches travel in which wait together, after the hello."""
    channel = Channel()
    stream = BatchStream(cast("grpc.Channel", channel), "pool", 1)
    stream.start()
    for batch in batches:
        stream.send(batch)
    stream.close()
    hello, *messages = channel.requests
    assert hello.hello.pool_id == "pool"
    assert not hello.following
    return messages


def batch(number: int, num_bytes: int = 0) -> pool_pb2.AttachRequest:
    operation = pool_pb2.Operation(compare_books=pool_pb2.CompareBooks(digest=bytes(num_bytes)))
    return pool_pb2.AttachRequest(batch=pool_pb2.Batch(number=number, operations=[operation]))


def numbers(message: pool_pb2.AttachRequest) -> list[int]:
    return [one.number for one in (message.batch, *message.following)]


def test_batches_that_wait_share_a_message_in_their_order() -> None:
    first = batch(1)
    [message] = sent(first, batch(2), batch(3))
    assert numbers(message) == [1, 2, 3]
    assert numbers(first) == [1], "what may have to be sent again was changed"


def test_no_message_is_longer_together_than_any_service_takes() -> None:
    """The last is too long by itself, and has nobody else refused."""
    messages = sent(*(batch(number, 5_000) for number in range(1, 31)), batch(31, 100_000))
    *shared, alone = messages
    assert [number for one in messages for number in numbers(one)] == list(range(1, 32))
    assert 1 < len(shared) < 30
    assert all(one.ByteSize() <= LEAST_MOST_BYTES for one in shared)
    assert numbers(alone) == [31]


def test_who_reads_lets_the_question_go_first(monkeypatch: pytest.MonkeyPatch) -> None:
    class ReadChannel(Channel):
        def __next__(self) -> pool_pb2.AttachResponse:
            waiting_when_read.append(stream.num_waiting)
            return super().__next__()

    waiting_when_read: list[int] = []
    channel = ReadChannel()
    stream = BatchStream(cast("grpc.Channel", channel), "pool", 1)
    stream.start()
    monkeypatch.setattr(outbox, "_AT_ONCE_S", 60)
    stream.send(batch(1))
    sender = threading.Timer(0.01, lambda: next(channel.requests))
    sender.start()
    stream.read()
    sender.join()
    assert waiting_when_read == [1, 0], "the hello waited for nobody, the batch was not sent"
