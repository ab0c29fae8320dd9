"""No block leaves the service before all workers hold the memory that the plan describes."""

import grpc
import pytest

from kvquarry.v1alpha import worker_pb2
from tests.contract.wire_engine import (
    Refused,
    WireEngine,
    admit,
    open_engine,
    open_request,
    refused,
)


@pytest.fixture
def engine(channel: grpc.Channel, name: str) -> WireEngine:
    return open_engine(channel, open_request(name, worker_count=2))


def refusal(engine: WireEngine, request: worker_pb2.RegisterWorkerRequest) -> Refused:
    """How a registration is refused."""
    with pytest.raises(grpc.RpcError) as failure:
        engine.register_raw(request)
    return refused(failure.value)


def can_admit(engine: WireEngine) -> str:
    """The reason why not, or nothing."""
    stream = engine.attach()
    reason: str = stream.exchange(admit(stream.exchange().number, 4)).error.reason
    stream.end()
    return reason


def test_blocks_are_handed_out_once_all_ranks_have_registered(engine: WireEngine) -> None:
    assert can_admit(engine) == "WORKERS_NOT_REGISTERED"
    assert engine.register(0, 2).registered_count == 1
    assert engine.register(0, 2).registered_count == 1
    assert can_admit(engine) == "WORKERS_NOT_REGISTERED"
    assert engine.register(1, 2).registered_count == 2
    assert can_admit(engine) == ""


def test_tensors_that_contradict_the_plan_are_refused(engine: WireEngine) -> None:
    request = engine.registration(0, 2)
    request.layers[0].stride_bytes += 1
    told = refusal(engine, request)
    assert (told.code, told.reason) == (
        grpc.StatusCode.FAILED_PRECONDITION,
        "LAYOUT_MISMATCH",
    )
    assert "group 0 layer 0" in told.message
    assert engine.register(0, 2).registered_count == 1


def test_ranks_that_differ_are_refused_and_both_named(engine: WireEngine) -> None:
    engine.register(0, 2)
    request = engine.registration(1, 2)
    request.digest = b"other"
    told = refusal(engine, request)
    assert (told.code, told.reason) == (
        grpc.StatusCode.FAILED_PRECONDITION,
        "WORKER_MISMATCH",
    )
    assert "ranks 0 and 1" in told.message
    assert can_admit(engine) == "WORKERS_NOT_REGISTERED"
    assert engine.register(1, 2).registered_count == 2


def test_ranks_that_the_engine_does_not_have_are_refused(engine: WireEngine) -> None:
    for rank, worker_count in ((2, 2), (0, 1)):
        told = refusal(engine, engine.registration(rank, worker_count))
        assert told.reason == "WORKER_MISMATCH"


def test_a_worker_without_a_digest_is_refused(engine: WireEngine) -> None:
    request = engine.registration(0, 2)
    request.digest = b""
    assert refusal(engine, request).reason == "INVALID_ARGUMENT"
