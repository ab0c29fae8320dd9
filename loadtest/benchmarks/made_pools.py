"""Pools without memory behind them, for engines that are only simulated."""

import grpc

from kvquarry.v1alpha import pool_pb2, pool_pb2_grpc, worker_pb2, worker_pb2_grpc
from kvquarry_client import wire
from kvquarry_core.plan import make_plan
from kvquarry_core.policies import NO_CHOICE_BUT_STAY
from kvquarry_core.worker_layout import planned_views
from loadtest.engine_session import GROUPS

__all__ = ["GROUPS", "POOL_BYTES", "close_made_pool", "open_made_pool"]

#: Room for sixteen long requests and what they leave in the cache; older content is evicted.
POOL_BYTES = 8 << 30
_TIMEOUT_S = 20.0


def open_made_pool(channel: grpc.Channel, engine: str) -> pool_pb2.OpenPoolResponse:
    """Open a pool and register its one worker."""
    request = wire.open_request(engine, GROUPS, POOL_BYTES, 1, "made up", NO_CHOICE_BUT_STAY)
    pools = pool_pb2_grpc.PoolServiceStub(channel)
    opened: pool_pb2.OpenPoolResponse = pools.OpenPool(
        request, timeout=_TIMEOUT_S, wait_for_ready=True
    )
    worker_pb2_grpc.WorkerServiceStub(channel).RegisterWorker(_worker(opened), timeout=_TIMEOUT_S)
    return opened


def close_made_pool(channel: grpc.Channel, opened: pool_pb2.OpenPoolResponse) -> None:
    """Give a pool up."""
    request = pool_pb2.ClosePoolRequest(pool_id=opened.pool_id, incarnation=opened.incarnation)
    pool_pb2_grpc.PoolServiceStub(channel).ClosePool(request, timeout=_TIMEOUT_S)


def _worker(opened: pool_pb2.OpenPoolResponse) -> worker_pb2.RegisterWorkerRequest:
    plan = make_plan(GROUPS, POOL_BYTES)
    return worker_pb2.RegisterWorkerRequest(
        pool_id=opened.pool_id,
        incarnation=opened.incarnation,
        rank=0,
        worker_count=1,
        device="none",
        buffer_size_bytes=plan.pool_bytes,
        layers=[
            worker_pb2.LayerView(
                layer=view.layer,
                group=view.group,
                offset_bytes=view.offset_bytes,
                stride_bytes=view.stride_bytes,
                block_count=view.num_blocks,
            )
            for view in planned_views(plan)
        ],
        digest=b"no tensors",
    )
