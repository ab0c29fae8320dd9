"""SIGTERM: first no new engines, then no engine at all, and nobody is left waiting."""

import signal
import time
from collections.abc import Callable, Iterator

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from tests.contract.running_service import RunningService, connected, running_service
from tests.contract.wire_engine import (
    WireStream,
    admit,
    open_engine,
    open_request,
    ready_engine,
    refused,
)

NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING


@pytest.fixture
def service() -> Iterator[RunningService]:
    with running_service("--drain-seconds", "2", "--health-listen", "127.0.0.1:0") as service:
        yield service


@pytest.fixture
def channel(service: RunningService) -> Iterator[grpc.Channel]:
    with connected(service.target) as channel:
        yield channel


def health(channel: grpc.Channel) -> int:
    request = health_pb2.HealthCheckRequest()
    status: int = health_pb2_grpc.HealthStub(channel).Check(request, timeout=5).status
    return status


def until(condition: Callable[[], bool]) -> None:
    start = time.monotonic()
    while not condition():
        assert time.monotonic() - start < 5
        time.sleep(0.02)


def told_to_stop(service: RunningService, channel: grpc.Channel) -> tuple[WireStream, float]:
    """A service with one engine says that it will end: the engine's stream, and since when."""
    _, stream = ready_engine(channel, "engine")
    start = time.monotonic()
    service.signal(signal.SIGTERM)
    until(lambda: health(channel) == NOT_SERVING)
    return stream, start


def test_engines_go_on_for_the_grace_and_are_then_told(
    service: RunningService, channel: grpc.Channel
) -> None:
    stream, start = told_to_stop(service, channel)
    with pytest.raises(grpc.RpcError) as failure:
        open_engine(channel, open_request("late"))
    late = refused(failure.value)
    assert (late.code, late.reason) == (grpc.StatusCode.UNAVAILABLE, "DRAINING")
    assert stream.exchange(admit(1, 4)).answers[0].HasField("admission")

    ended = stream.failure()
    assert (ended.code, ended.reason) == (grpc.StatusCode.UNAVAILABLE, "DRAINING")
    assert 1.9 < time.monotonic() - start < 4
    assert service.wait() == 0
    assert not (service.folder / "s").exists()


def test_nobody_is_waited_for_when_no_engine_is_there(service: RunningService) -> None:
    start = time.monotonic()
    service.signal(signal.SIGTERM)
    assert service.wait() == 0
    assert time.monotonic() - start < 1.9


def test_the_drain_ends_with_the_last_stream(
    service: RunningService, channel: grpc.Channel
) -> None:
    stream, start = told_to_stop(service, channel)
    stream.end()
    assert list(stream.call) == []
    assert service.wait() == 0
    assert time.monotonic() - start < 1.9


@pytest.mark.parametrize("second", [signal.SIGTERM, signal.SIGINT])
def test_a_second_signal_stops_at_once(second: signal.Signals) -> None:
    with (
        running_service("--drain-seconds", "60") as service,
        connected(service.target) as channel,
    ):
        _, stream = ready_engine(channel, "engine")
        service.signal(signal.SIGTERM)
        until(lambda: health(channel) == NOT_SERVING)
        service.signal(second)
        assert service.wait() == 0
        assert stream.failure().code in (
            grpc.StatusCode.UNAVAILABLE,
            grpc.StatusCode.CANCELLED,
        )


def test_a_probe_that_watches_does_not_hold_up_the_end(
    service: RunningService, channel: grpc.Channel
) -> None:
    watch = health_pb2_grpc.HealthStub(channel).Watch(health_pb2.HealthCheckRequest())
    assert next(watch).status == health_pb2.HealthCheckResponse.SERVING
    service.signal(signal.SIGTERM)
    assert next(watch).status == NOT_SERVING
    assert service.wait() == 0
