"""Engines live, die and live again under the same name; each life is fenced from the next."""

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import grpc
import pytest

from kvquarry.v1alpha import admin_pb2, admin_pb2_grpc
from tests.contract.conftest import LEASE_S
from tests.contract.running_service import RunningService, connected, running_service
from tests.contract.wire_engine import (
    PATIENCE_S,
    Refused,
    WireEngine,
    admit,
    open_engine,
    open_request,
    ready_engine,
    refused,
)


def pools(channel: grpc.Channel, name: str) -> list[admin_pb2.PoolStatus]:
    """The pools of the engine of that name."""
    status = admin_pb2_grpc.AdminServiceStub(channel).GetStatus(
        admin_pb2.GetStatusRequest(), timeout=PATIENCE_S
    )
    return [pool for pool in status.pools if pool.attachments[0].engine == name]


def wait_until_gone(channel: grpc.Channel, name: str, within_s: float) -> float:
    """Seconds until the engine has no pool."""
    start = time.monotonic()
    while pools(channel, name):
        assert time.monotonic() - start < within_s, "the pool is still there"
        time.sleep(0.02)
    return time.monotonic() - start


def refusal_of(engine: WireEngine) -> Refused:
    """How every unary call of a life is refused; all alike."""
    refusals = []
    for call in (engine.register, engine.close):
        with pytest.raises(grpc.RpcError) as failure:
            call()
        refusals.append(refused(failure.value))
    assert refusals[0].reason == refusals[1].reason
    return refusals[0]


def test_opening_again_fences_the_life_before(channel: grpc.Channel, name: str) -> None:
    first, stream = ready_engine(channel, name)
    second = open_engine(channel, open_request(name))
    assert (first.opened.incarnation, second.opened.incarnation) == (1, 2)
    expected = (grpc.StatusCode.FAILED_PRECONDITION, "STALE_INCARNATION")
    for failure in (stream.failure(), first.stream_failure(), refusal_of(first)):
        assert (failure.code, failure.reason) == expected
    assert len(pools(channel, name)) == 1


def test_the_right_pool_with_the_wrong_incarnation_is_refused(
    channel: grpc.Channel, name: str
) -> None:
    engine = open_engine(channel, open_request(name))
    engine.opened.incarnation += 1
    assert refusal_of(engine).reason == "STALE_INCARNATION"
    assert engine.stream_failure().reason == "STALE_INCARNATION"


def test_an_unknown_pool_is_refused(channel: grpc.Channel, name: str) -> None:
    engine = open_engine(channel, open_request(name))
    engine.opened.pool_id = "nowhere"
    assert refusal_of(engine) == Refused(
        grpc.StatusCode.NOT_FOUND,
        "UNKNOWN_POOL",
        "there is no such pool: open one; it may have lapsed or been closed",
    )
    assert engine.stream_failure().reason == "UNKNOWN_POOL"


def test_a_second_stream_of_one_life_supersedes_the_first(channel: grpc.Channel, name: str) -> None:
    engine, older = ready_engine(channel, name)
    older.exchange(admit(1, 4))
    newer = engine.attach()
    failure = older.failure()
    assert (failure.code, failure.reason) == (grpc.StatusCode.ABORTED, "SUPERSEDED")
    assert newer.exchange(admit(2, 4)).number == 2
    time.sleep(LEASE_S + 0.4)
    assert newer.exchange(admit(3, 4)).number == 3


def test_a_closed_pool_ends_its_stream(channel: grpc.Channel, name: str) -> None:
    engine, stream = ready_engine(channel, name)
    engine.close()
    assert stream.failure().reason == "UNKNOWN_POOL"
    assert pools(channel, name) == []


def test_a_pool_goes_with_its_lease_and_not_before(channel: grpc.Channel, name: str) -> None:
    engine, stream = ready_engine(channel, name)
    time.sleep(LEASE_S + 0.4)
    assert pools(channel, name)[0].attachments[0].attached
    stream.end()
    assert list(stream.call) == []
    (pool,) = pools(channel, name)
    assert 0 < pool.attachments[0].lease_remaining_seconds <= LEASE_S
    assert wait_until_gone(channel, name, within_s=LEASE_S + 1) > LEASE_S / 2
    assert refusal_of(engine).reason == "UNKNOWN_POOL"


def test_a_stream_within_the_lease_keeps_the_pool(channel: grpc.Channel, name: str) -> None:
    engine, stream = ready_engine(channel, name)
    stream.exchange(admit(1, 4))
    stream.call.cancel()
    time.sleep(LEASE_S / 2)
    again = engine.stream()
    assert again.start().welcome.last_batch_number == 1
    time.sleep(LEASE_S + 0.4)
    assert pools(channel, name)[0].request_count == 1


_ENGINE = """
import sys, time
from tests.contract.running_service import connected
from tests.contract.wire_engine import admit, ready_engine
with connected(sys.argv[1]) as channel:
    _, stream = ready_engine(channel, sys.argv[2])
    stream.exchange(admit(1, 4))
    print("attached", flush=True)
    time.sleep(60)
"""


@contextmanager
def engine_process(target: str, name: str) -> Iterator["subprocess.Popen[str]"]:
    """An attached engine in a process of its own."""
    command = [sys.executable, "-c", _ENGINE, target, name]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "attached\n"
            yield process
        finally:
            process.kill()


def test_a_killed_engine_loses_its_pool_with_its_lease(
    service: RunningService, channel: grpc.Channel, name: str
) -> None:
    with engine_process(service.target, name):
        assert pools(channel, name)[0].attachments[0].attached
    wait_until_gone(channel, name, within_s=LEASE_S + 1)


def test_the_name_of_a_killed_engine_starts_again_at_once(
    service: RunningService, channel: grpc.Channel, name: str
) -> None:
    with engine_process(service.target, name):
        pass
    engine, stream = ready_engine(channel, name)
    assert stream.exchange(admit(1, 4)).answers[0].HasField("admission")
    assert engine.opened.incarnation == 2


@pytest.mark.parametrize("transport", ["unix", "tcp"])
def test_an_engine_that_falls_silent_is_noticed(transport: str, name: str) -> None:
    """As when its machine loses power: no connection is closed, no ping is answered."""
    flags = ("--keepalive-seconds", "0.5", "--lease-seconds", "0.2", "--listen", "127.0.0.1:0")
    with running_service(*flags) as service, connected(service.target) as channel:
        tcp_target = service.found(r" (127\.0\.0\.1:\d+) metrics")
        target = {"unix": service.target, "tcp": tcp_target}[transport]
        with engine_process(target, name) as process:
            time.sleep(1.5)
            assert pools(channel, name)[0].attachments[0].attached
            process.send_signal(signal.SIGSTOP)
            wait_until_gone(channel, name, within_s=2 * 0.5 + 0.2 + 1)
