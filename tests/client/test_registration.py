"""Registering a worker: what travels, what a refusal becomes, and waiting for the service."""

from collections.abc import Iterator
from concurrent import futures
from pathlib import Path

import grpc
import pytest
from google.protobuf.any_pb2 import Any as AnyMessage

from kvquarry.v1alpha import status_pb2, worker_pb2, worker_pb2_grpc
from kvquarry_client.errors import ServiceError, ServiceUnavailable
from kvquarry_client.inproc import open_inproc
from kvquarry_client.registration import WorkerMemory, register_worker
from kvquarry_client.target import Target, parse_target
from kvquarry_core.errors import UsageError
from kvquarry_core.ids import GroupId
from kvquarry_core.plan import GroupKind, GroupSpec, make_plan
from kvquarry_core.worker_layout import LayerView, planned_views

MEMORY = WorkerMemory(
    rank=1,
    num_workers=2,
    device="cuda:1",
    buffer_bytes=4096,
    views=(LayerView("a", GroupId(0), 0, 64, 8), LayerView("s", GroupId(1), 512, 128, 4)),
    digest=b"digest",
)


class FakeService(worker_pb2_grpc.WorkerServiceServicer):
    """Takes every worker, or refuses all with one reason."""

    def __init__(self) -> None:
        self.requests: list[worker_pb2.RegisterWorkerRequest] = []
        self.refusal: tuple[str, str] | None = None

    def RegisterWorker(  # noqa: N802 - the wire's name
        self, request: worker_pb2.RegisterWorkerRequest, context: grpc.ServicerContext
    ) -> worker_pb2.RegisterWorkerResponse:
        self.requests.append(request)
        if self.refusal is not None:
            reason, message = self.refusal
            detail = AnyMessage()
            detail.Pack(status_pb2.ErrorInfo(reason=reason))
            status = status_pb2.StatusDetails(code=9, message=message, details=[detail])
            context.set_trailing_metadata(
                (("grpc-status-details-bin", status.SerializeToString()),)
            )
            context.abort(grpc.StatusCode.FAILED_PRECONDITION, message)
        return worker_pb2.RegisterWorkerResponse(registered_count=1)


@pytest.fixture
def target(tmp_path: Path) -> Target:
    return parse_target(f"unix:{tmp_path}/q.sock")


@pytest.fixture
def service(target: Target) -> Iterator[FakeService]:
    fake = FakeService()
    server = grpc.server(futures.ThreadPoolExecutor(2))
    worker_pb2_grpc.add_WorkerServiceServicer_to_server(fake, server)
    server.add_insecure_port(str(target.grpc_address))
    server.start()
    yield fake
    server.stop(None).wait()


def register(target: Target, memory: WorkerMemory = MEMORY, pool_id: str = "pool-1") -> None:
    register_worker(target, pool_id=pool_id, incarnation=4, memory=memory, timeout_s=1.0)


def test_everything_a_worker_says_travels(target: Target, service: FakeService) -> None:
    register(target)
    (request,) = service.requests
    assert (request.pool_id, request.incarnation) == ("pool-1", 4)
    assert (request.rank, request.worker_count, request.device) == (1, 2, "cuda:1")
    assert (request.buffer_size_bytes, request.digest) == (4096, b"digest")
    views = [
        LayerView(v.layer, GroupId(v.group), v.offset_bytes, v.stride_bytes, v.block_count)
        for v in request.layers
    ]
    assert tuple(views) == MEMORY.views


def test_a_refusal_carries_its_reason_and_is_not_tried_again(
    target: Target, service: FakeService
) -> None:
    service.refusal = ("LAYOUT_MISMATCH", "layer a has 3 blocks")
    with pytest.raises(ServiceError, match="layer a has 3 blocks") as error:
        register(target)
    assert error.value.reason == "LAYOUT_MISMATCH"
    assert len(service.requests) == 1


def test_nobody_there_is_an_error_that_names_the_target(target: Target) -> None:
    with pytest.raises(ServiceUnavailable, match=str(target)):
        register(target)


def inproc_memory(stride_bytes: int = 0) -> tuple[str, WorkerMemory]:
    """A pool of this process, and a worker whose first layer has this stride, if it is given."""
    plan = make_plan([GroupSpec(GroupKind.FULL_ATTENTION, 16, 64, 2)], 4096)
    pool_id, _ = open_inproc(plan)
    views = list(planned_views(plan))
    if stride_bytes:
        first = views[0]
        views[0] = LayerView("odd", first.group, 0, stride_bytes, first.num_blocks)
    return pool_id, WorkerMemory(0, 1, "cpu", plan.pool_bytes, tuple(views), b"")


def test_a_core_in_this_process_is_told_directly() -> None:
    pool_id, memory = inproc_memory()
    register(parse_target("inproc:"), memory, pool_id)


def test_a_core_in_this_process_refuses_as_the_service_does() -> None:
    pool_id, memory = inproc_memory(stride_bytes=65)
    with pytest.raises(UsageError, match="odd"):
        register(parse_target("inproc:"), memory, pool_id)
