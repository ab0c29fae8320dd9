"""Registering a worker: called in the process that built the tensors, once they are built."""

from dataclasses import dataclass

from kvquarry.v1alpha import worker_pb2, worker_pb2_grpc
from kvquarry_client.channel import open_channel
from kvquarry_client.inproc import register_inproc_worker
from kvquarry_client.target import Target
from kvquarry_client.waiting import retry_while_away
from kvquarry_core.worker_layout import LayerView

_CALL_TIMEOUT_S = 10.0


@dataclass(frozen=True, slots=True)
class WorkerMemory:
    """What one worker built.

    Attributes:
        rank: Its number among the engine's workers.
        num_workers: How many there are.
        device: Its device's name, for people.
        buffer_bytes: Memory it has for its copy of the pool.
        views: Where each layer's blocks lie in it.
        digest: Of offset, shape, stride and dtype of every layer's tensors.
    """

    rank: int
    num_workers: int
    device: str
    buffer_bytes: int
    views: tuple[LayerView, ...]
    digest: bytes


def register_worker(
    target: Target,
    *,
    pool_id: str,
    incarnation: int,
    memory: WorkerMemory,
    timeout_s: float,
) -> None:
    """Tell the pool's owner what this worker built; no block is handed out before all have.

    Saying the same again is harmless.

    Raises:
        ServiceUnavailable: Nobody answered within ``timeout_s``.
        ServiceError: The service refused; the message names what differs.
        UsageError: The same, from the core in this process (``inproc:``).
    """
    if target.is_inproc:
        register_inproc_worker(pool_id, memory.views, memory.buffer_bytes)
        return
    request = _request(pool_id, incarnation, memory)
    with open_channel(target) as channel:
        stub = worker_pb2_grpc.WorkerServiceStub(channel)
        retry_while_away(
            lambda: stub.RegisterWorker(request, timeout=_CALL_TIMEOUT_S),
            target,
            timeout_s=timeout_s,
        )


def _request(
    pool_id: str, incarnation: int, memory: WorkerMemory
) -> worker_pb2.RegisterWorkerRequest:
    return worker_pb2.RegisterWorkerRequest(
        pool_id=pool_id,
        incarnation=incarnation,
        rank=memory.rank,
        worker_count=memory.num_workers,
        device=memory.device,
        buffer_size_bytes=memory.buffer_bytes,
        layers=[_layer(view) for view in memory.views],
        digest=memory.digest,
    )


def _layer(view: LayerView) -> worker_pb2.LayerView:
    return worker_pb2.LayerView(
        layer=view.layer,
        group=view.group,
        offset_bytes=view.offset_bytes,
        stride_bytes=view.stride_bytes,
        block_count=view.num_blocks,
    )
