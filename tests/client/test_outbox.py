"""What gRPC's thread has not come for can be taken back, and nothing else."""

import threading
from collections.abc import Iterator
from itertools import islice

import pytest

from kvquarry.v1alpha import pool_pb2
from kvquarry_client import outbox as outbox_module
from kvquarry_client.outbox import Outbox

MANY = 3_000


def batch(number: int) -> pool_pb2.AttachRequest:
    return pool_pb2.AttachRequest(batch=pool_pb2.Batch(number=number))


def numbers(messages: Iterator[pool_pb2.AttachRequest]) -> list[int]:
    return [one.number for message in messages for one in (message.batch, *message.following)]


def test_the_last_ones_are_taken_back() -> None:
    outbox = Outbox()
    for number in range(1, 5):
        outbox.put(batch(number))
    assert outbox.take_back(2) == 2
    outbox.put(batch(5))
    outbox.close()
    assert numbers(iter(outbox)) == [1, 2, 5]


def test_what_was_come_for_stays_sent() -> None:
    outbox = Outbox()
    messages = iter(outbox)
    outbox.put(batch(1))
    assert numbers(islice(messages, 1)) == [1]
    assert outbox.take_back(1) == 0
    outbox.put(batch(2))
    assert outbox.take_back(5) == 1
    outbox.close()
    assert numbers(messages) == []


def test_two_threads_agree_on_what_was_sent() -> None:
    """One numbers and takes back as an engine does, the other comes when it likes."""
    outbox = Outbox()
    heard: list[int] = []
    listener = threading.Thread(target=lambda: heard.extend(numbers(iter(outbox))))
    listener.start()
    told: list[int] = []
    num_taken = 0
    for number in range(MANY):
        told.append(number)
        outbox.put(batch(number))
        if number % 3 == 2:
            taken = outbox.take_back(2)
            num_taken += taken
            del told[len(told) - taken :]
    outbox.close()
    listener.join()
    assert heard == told
    assert num_taken, "nothing ever waited"


def test_who_puts_something_in_can_wait_until_it_is_come_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(outbox_module, "_AT_ONCE_S", 60)
    outbox = Outbox()
    outbox.wait_until_taken()
    outbox.put(batch(1))
    outbox.put(batch(2))
    listener = threading.Timer(0.01, lambda: next(iter(outbox)))
    listener.start()
    outbox.wait_until_taken()
    assert len(outbox) == 0
    listener.join()


def test_a_thread_that_does_not_come_is_not_waited_for() -> None:
    outbox = Outbox()
    outbox.put(batch(1))
    outbox.wait_until_taken()
    assert len(outbox) == 1


def test_what_was_taken_back_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outbox_module, "_AT_ONCE_S", 60)
    outbox = Outbox()
    outbox.put(batch(1))
    outbox.put(batch(2))
    outbox.take_back(2)
    outbox.wait_until_taken()
    outbox.put(batch(3))
    assert numbers(islice(iter(outbox), 1)) == [3]
    outbox.wait_until_taken()
