"""A service that says too little is paced, waited for aloud, and given up in the end."""

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kvquarry.v1alpha import pool_pb2
from kvquarry_client import lasting_stream, stream
from kvquarry_client.channel import open_channel
from kvquarry_client.errors import ServiceUnavailable
from kvquarry_client.lasting_stream import LastingStream
from kvquarry_client.stream import BatchStream
from kvquarry_client.target import Target
from tests.integration.strange_service import WELCOME, Requests, Responses, StrangeService, serving

PATIENCE_S = 1.5
FIRST = pool_pb2.AttachRequest(batch=pool_pb2.Batch(number=1))


def break_off(requests: Requests) -> Responses:
    next(requests)
    yield WELCOME


def say_nothing(requests: Requests) -> Responses:
    yield from (WELCOME for _ in ())
    list(requests)


def answer_nothing(requests: Requests) -> Responses:
    next(requests)
    yield WELCOME
    list(requests)


@contextmanager
def lasting(target: Target) -> Iterator[LastingStream]:
    channel = open_channel(target)
    lasting = LastingStream(lambda: BatchStream(channel, "pool", 1), target, patience_s=PATIENCE_S)
    yield lasting
    lasting.close()
    channel.close()


def test_a_service_that_always_breaks_off_is_paced_and_given_up(tmp_path: Path) -> None:
    service = StrangeService(break_off)
    with serving(service, tmp_path / "s") as target, lasting(target) as engine:
        engine.start()
        engine.send(FIRST)
        start = time.monotonic()
        with pytest.raises(ServiceUnavailable, match="no kvquarry service answered"):
            engine.read()
        assert PATIENCE_S <= time.monotonic() - start < PATIENCE_S + 2
        assert 2 <= service.num_streams <= 6


def test_a_service_that_does_not_welcome_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream, "_WELCOME_TIMEOUT_S", 0.3)
    service = StrangeService(say_nothing)
    with (
        serving(service, tmp_path / "s") as target,
        lasting(target) as engine,
        pytest.raises(ServiceUnavailable),
    ):
        engine.start()
    assert service.num_streams > 1


def test_an_answer_is_waited_for_aloud_and_not_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(lasting_stream, "_LOOK_S", 0.3)
    with (
        serving(StrangeService(answer_nothing), tmp_path / "s") as target,
        lasting(target) as engine,
        caplog.at_level(logging.WARNING),
    ):
        engine.start()
        engine.send(FIRST)
        with pytest.raises(ServiceUnavailable):
            engine.read()
    assert "waiting for an answer of kvquarry at" in caplog.text
