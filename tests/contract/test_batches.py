"""Batches are applied in order and exactly once, whatever breaks in between."""

import grpc
import pytest

from kvquarry.v1alpha import pool_pb2
from tests.contract.wire_engine import (
    ATTENTION,
    admit,
    begin_step,
    free,
    open_engine,
    open_request,
    ready_engine,
    take,
)


def test_a_repeated_number_returns_the_first_answer_again(channel: grpc.Channel, name: str) -> None:
    engine, stream = ready_engine(channel, name)
    stream.send(1, [admit(1, 8)])
    first = stream.read()
    stream.send(2, [take(1, ATTENTION, 1)])
    second = stream.read()
    stream.send(1, [admit(1, 8)])
    assert stream.read() == first
    again = engine.stream()
    assert again.start().welcome.last_batch_number == 2
    again.send(2, [take(1, ATTENTION, 1)])
    assert again.read() == second
    again.send(3, [take(1, ATTENTION, 1)])
    third = again.read()
    assert (third.result.number, third.revision) == (3, second.revision + 1)


def test_a_skipped_number_ends_the_stream_and_changes_nothing(
    channel: grpc.Channel, name: str
) -> None:
    engine, stream = ready_engine(channel, name)
    revision = stream.exchange(admit(1, 8)).number
    stream.send(3, [free(1)])
    failure = stream.failure()
    assert (failure.code, failure.reason) == (
        grpc.StatusCode.FAILED_PRECONDITION,
        "OUT_OF_ORDER",
    )
    welcome = engine.stream().start()
    assert (welcome.welcome.last_batch_number, welcome.revision) == (1, revision)


def test_an_answer_too_old_to_be_kept_ends_the_stream(channel: grpc.Channel, name: str) -> None:
    _, stream = ready_engine(channel, name)
    for _ in range(130):
        stream.exchange(begin_step())
    stream.send(1, [begin_step()])
    assert stream.failure().reason == "ANSWER_FORGOTTEN"


def test_a_mistake_is_told_in_its_place_and_the_stream_goes_on(
    channel: grpc.Channel, name: str
) -> None:
    _, stream = ready_engine(channel, name)
    result = stream.exchange(admit(1, 8), take(1, ATTENTION, 99), free(1))
    assert len(result.answers) == 1
    assert result.error.reason == "NOT_GRANTED"
    assert result.error.metadata == {"operation_index": "1"}
    assert not stream.exchange(free(1)).HasField("error")


def test_an_operation_from_the_future_is_refused_in_its_place(
    channel: grpc.Channel, name: str
) -> None:
    _, stream = ready_engine(channel, name)
    unknown = pool_pb2.Operation.FromString(b"\xba\x3e\x00")
    result = stream.exchange(admit(1, 8), unknown)
    assert result.error.reason == "INVALID_ARGUMENT"
    assert len(result.answers) == 1


@pytest.mark.parametrize("counts", [[1], [0, 0, 0], [1 << 40, 0], [0, (1 << 64) - 1]])
def test_empty_slots_that_no_pool_has_end_the_stream_and_change_nothing(
    channel: grpc.Channel, name: str, counts: list[int]
) -> None:
    engine, stream = ready_engine(channel, name)
    stream.exchange(admit(1, 4), empty_slots=[3, 0])
    stream.send(2, [admit(2, 4)], counts)
    failure = stream.failure()
    assert (failure.code, failure.reason) == (
        grpc.StatusCode.INVALID_ARGUMENT,
        "INVALID_ARGUMENT",
    )
    again = engine.stream()
    assert again.start().welcome.last_batch_number == 1
    assert again.exchange(admit(2, 4)).answers[0].HasField("admission")


@pytest.mark.parametrize("first", [pool_pb2.AttachRequest(), pool_pb2.AttachRequest(batch={})])
def test_a_stream_that_does_not_begin_with_a_hello_is_refused(
    channel: grpc.Channel, name: str, first: pool_pb2.AttachRequest
) -> None:
    stream = open_engine(channel, open_request(name)).stream()
    stream.send_raw(first)
    failure = stream.failure()
    assert (failure.code, failure.reason) == (
        grpc.StatusCode.INVALID_ARGUMENT,
        "INVALID_ARGUMENT",
    )


def test_a_second_hello_is_refused(channel: grpc.Channel, name: str) -> None:
    engine, stream = ready_engine(channel, name)
    stream.send_raw(pool_pb2.AttachRequest(hello=pool_pb2.Hello(pool_id=engine.opened.pool_id)))
    assert stream.failure().reason == "INVALID_ARGUMENT"


def test_a_stream_that_says_nothing_may_end(channel: grpc.Channel, name: str) -> None:
    stream = open_engine(channel, open_request(name)).stream()
    stream.end()
    assert list(stream.call) == []
