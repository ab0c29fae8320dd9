"""Batches may follow another in its message, as if each came in its own."""

import grpc

from kvquarry.v1alpha import pool_pb2
from tests.contract.wire_engine import admit, free, ready_engine

MOST_OPERATIONS = 65_536


def message(
    number: int, operation: pool_pb2.Operation, *following: pool_pb2.Batch
) -> pool_pb2.AttachRequest:
    batch = pool_pb2.Batch(number=number, operations=[operation])
    return pool_pb2.AttachRequest(batch=batch, following=following)


def quiet(number: int, *operations: pool_pb2.Operation) -> pool_pb2.Batch:
    return pool_pb2.Batch(number=number, operations=operations, quiet=True)


def test_the_first_is_answered_as_if_nothing_followed(channel: grpc.Channel, name: str) -> None:
    engine, stream = ready_engine(channel, name)
    stream.exchange(admit(1, 8))
    stream.send_raw(message(2, admit(2, 8), quiet(3, free(1))))
    answer = stream.read()
    assert (answer.result.number, answer.revision) == (2, 2)
    welcome = engine.stream().start()
    assert (welcome.welcome.last_batch_number, welcome.revision) == (3, 3)


def test_a_message_that_is_sent_again_is_applied_once(channel: grpc.Channel, name: str) -> None:
    _, stream = ready_engine(channel, name)
    stream.exchange(admit(1, 8))
    twice = message(2, admit(2, 8), quiet(3, free(1)))
    stream.send_raw(twice)
    first = stream.read()
    stream.send_raw(twice)
    assert stream.read() == first
    stream.send(4, [free(2)])
    answer = stream.read()
    assert (answer.result.number, answer.revision) == (4, 4)
    assert not answer.result.HasField("error")


def test_a_mistake_in_what_follows_is_told_under_its_own_number(
    channel: grpc.Channel, name: str
) -> None:
    _, stream = ready_engine(channel, name)
    stream.send_raw(message(1, admit(1, 8), quiet(2, free(7))))
    assert stream.read().result.answers[0].HasField("admission")
    mistake = stream.read().result
    assert (mistake.number, mistake.error.reason) == (2, "UNKNOWN_REQUEST")


def test_what_follows_must_have_the_next_number(channel: grpc.Channel, name: str) -> None:
    engine, stream = ready_engine(channel, name)
    stream.send_raw(message(1, admit(1, 8), quiet(3, free(1))))
    assert stream.read().result.answers[0].HasField("admission")
    assert stream.failure().reason == "OUT_OF_ORDER"
    assert engine.stream().start().welcome.last_batch_number == 1


def test_what_follows_and_is_too_long_leaves_the_first_as_it_is(
    channel: grpc.Channel, name: str
) -> None:
    engine, stream = ready_engine(channel, name)
    too_long = quiet(2, *[pool_pb2.Operation()] * (MOST_OPERATIONS + 1))
    stream.send_raw(message(1, admit(1, 8), too_long))
    assert stream.read().result.answers[0].HasField("admission")
    assert stream.failure().reason == "INVALID_ARGUMENT"
    assert engine.stream().start().welcome.last_batch_number == 1


def test_nothing_follows_a_hello(channel: grpc.Channel, name: str) -> None:
    engine, _ = ready_engine(channel, name)
    stream = engine.stream()
    hello = pool_pb2.Hello(pool_id=engine.opened.pool_id, incarnation=engine.opened.incarnation)
    stream.send_raw(pool_pb2.AttachRequest(hello=hello, following=[quiet(1, free(1))]))
    assert stream.failure().reason == "INVALID_ARGUMENT"


def test_several_follow_and_each_that_is_not_quiet_is_answered(
    channel: grpc.Channel, name: str
) -> None:
    _, stream = ready_engine(channel, name)
    asking = pool_pb2.Batch(number=3, operations=[admit(2, 8)])
    stream.send_raw(message(1, admit(1, 8), quiet(2, free(1)), asking, quiet(4, free(2))))
    first, second = stream.read(), stream.read()
    assert [first.result.number, second.result.number] == [1, 3]
    assert [first.revision, second.revision] == [1, 3]
