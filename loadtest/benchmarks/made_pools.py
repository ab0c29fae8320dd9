"""Pools without memory behind them, for engines that are only simulated."""

import grpc

from kvquarry.v1alpha import pool_pb2, pool_pb2_grpc, worker_pb2, worker_pb2_grpc
from kvquarry_client.wire import plans
from kvquarry_core.plan import make_plan
from kvquarry_core.policies import NO_CHOICE_BUT_STAY
from kvquarry_core.worker_layout import planned_views
from kvquarry_server.conversion.plans import group_from_wire
from loadtest.engine_session import GROUPS

__all__ = ["GROUPS", "POOL_BYTES", "close_pool", "made_opening", "open_pool"]

#: Room for sixteen long requests and what they leave in the cache; older content is evicted.
POOL_BYTES = 8 << 30
_TIMEOUT_S = 20.0


def made_opening(engine: str) -> pool_pb2.OpenPoolRequest:
    """How a made-up engine opens its pool."""
    return plans.open_request(
        engine, GROUPS, POOL_BYTES, 1, "made up", NO_CHOICE_BUT_STAY, hears_evictions=False
    )


def open_pool(
    channel: grpc.Channel, opening: pool_pb2.OpenPoolRequest
) -> pool_pb2.OpenPoolResponse:
    """Open a pool and register its one worker."""
    pools = pool_pb2_grpc.PoolServiceStub(channel)
    opened: pool_pb2.OpenPoolResponse = pools.OpenPool(
        opening, timeout=_TIMEOUT_S, wait_for_ready=True
    )
    worker_pb2_grpc.WorkerServiceStub(channel).RegisterWorker(
        _worker(opening, opened), timeout=_TIMEOUT_S
    )
    return opened


def close_pool(channel: grpc.Channel, opened: pool_pb2.OpenPoolResponse) -> None:
    """Give a pool up."""
    request = pool_pb2.ClosePoolRequest(pool_id=opened.pool_id, incarnation=opened.incarnation)
    pool_pb2_grpc.PoolServiceStub(channel).ClosePool(request, timeout=_TIMEOUT_S)


def _worker(
    opening: pool_pb2.OpenPoolRequest, opened: pool_pb2.OpenPoolResponse
) -> worker_pb2.RegisterWorkerRequest:
    plan = make_plan(tuple(map(group_from_wire, opening.groups)), opening.pool_size_bytes)
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
