"""Pools opened at a service, for the tests that need no vLLM."""

from typing import Any

from kvquarry_client.engine import OpenedPool, ledger_of, open_pool
from kvquarry_client.ledger import Ledger
from kvquarry_client.registration import WorkerMemory, register_worker
from kvquarry_client.target import parse_target
from kvquarry_core.plan import GroupSpec, Plan
from kvquarry_core.worker_layout import planned_views
from tests.client.pools import HYBRID

#: Forty slabs of the small hybrid's size.
POOL_BYTES = 40 * 192


def opened(
    target: str,
    engine: str,
    groups: tuple[GroupSpec, ...] = HYBRID,
    pool_bytes: int = POOL_BYTES,
    *,
    timeout_s: float = 10,
    **chosen: Any,  # noqa: ANN401
) -> tuple[Ledger, Plan]:
    """A pool whose only worker has registered."""
    usual = {"groups": groups, "pool_bytes": pool_bytes, "connect_timeout_s": timeout_s}
    pool = pool_of(target, engine, **usual | chosen)
    views = tuple(planned_views(pool.plan))
    register_worker(
        parse_target(target),
        pool_id=pool.pool_id,
        incarnation=pool.incarnation,
        memory=WorkerMemory(0, 1, "none", pool.plan.pool_bytes, views, b"digest"),
        timeout_s=timeout_s,
    )
    return ledger_of(pool.pool_id), pool.plan


def pool_of(target: str, engine: str = "engine", **chosen: Any) -> OpenedPool:  # noqa: ANN401
    """A pool of the small hybrid that no worker has registered with, but for what is chosen."""
    usual: dict[str, Any] = {
        "groups": HYBRID,
        "pool_bytes": POOL_BYTES,
        "num_workers": 1,
        "model": "made up",
        "connect_timeout_s": 10,
    }
    return open_pool(target, engine=engine, **usual | chosen)
