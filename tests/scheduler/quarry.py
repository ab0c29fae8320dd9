"""kvquarry's manager as the pool under test, over the core in this process."""

from __future__ import annotations

from dataclasses import dataclass

from vllm.config import VllmConfig
from vllm.v1.core.sched.scheduler import Scheduler

from kvquarry_client.engine import open_pool
from kvquarry_client.inproc import InprocLedger, register_inproc_worker
from kvquarry_core.integrity import check_integrity
from kvquarry_core.pool import Pool as CorePool
from kvquarry_core.usage import usage_of
from kvquarry_core.worker_layout import planned_views
from kvquarry_vllm.config import MixedKVCacheConfig, mixed_config
from kvquarry_vllm.manager import make_kv_cache_manager
from tests.scheduler.geometry import Geometry
from tests.scheduler.simulation import Pool

TARGET = "inproc:"


@dataclass(frozen=True)
class QuarryPools:
    """Pools of kvquarry, each opened as an engine would.

    Attributes:
        memory_bytes: Memory of each pool, both layers of every group together.
    """

    geometry: Geometry
    memory_bytes: int

    @property
    def block_tokens(self) -> int:
        """See :class:`tests.scheduler.simulation.PoolFactory`."""
        return self.geometry.block_tokens

    def open(self, vllm_config: VllmConfig) -> Pool:
        """See :class:`tests.scheduler.simulation.PoolFactory`."""
        cache_config = vllm_config.cache_config
        cache_config.kv_cache_layout = "LBHNC"
        cache_config.prefix_cache_retention_interval = self.geometry.retention_interval
        config = mixed_config(vllm_config, self.geometry.groups(None), self.memory_bytes)
        _open(config)
        return Pool("kvquarry", config, make_kv_cache_manager, num_held, quarry_leaks)


def core_pool(scheduler: Scheduler) -> CorePool:
    """The core's pool behind a scheduler."""
    ledger = scheduler.kv_cache_manager.shadow.ledger
    assert isinstance(ledger, InprocLedger)
    return ledger.pool


def num_held(scheduler: Scheduler) -> int:
    """Blocks that are neither free nor cached, all size classes together.

    Left out are the null blocks, what running requests were granted ahead, and leased states that
    no running request uses now. Nobody else may hold anything.
    """
    pool = core_pool(scheduler)
    classes = usage_of(pool).classes
    taken = sum(one.active + one.granted for one in classes) - pool.plan.num_reserved_blocks
    return taken - _num_granted_ahead(scheduler, pool) - _num_in_stock(scheduler, pool)


def _num_granted_ahead(scheduler: Scheduler, pool: CorePool) -> int:
    shadow = scheduler.kv_cache_manager.shadow
    running = [shadow.find(request.request_id) for request in scheduler.running]
    grants = [pool.requests[one.handle].granted for one in running]
    return sum(len(blocks) for granted in grants for blocks in granted)


def _num_in_stock(scheduler: Scheduler, pool: CorePool) -> int:
    tables = [
        scheduler.kv_cache_manager.get_block_ids(request.request_id)
        for request in scheduler.running
    ]
    in_tables = [
        {block for table in tables for block in table[g]} for g in range(len(pool.plan.groups))
    ]
    pairs = zip(pool.lease.blocks, in_tables, strict=True)
    return sum(len(leased - used) for leased, used in pairs)


def quarry_leaks(scheduler: Scheduler) -> list[str]:
    """What an idle pool still holds, by owner; its own conservation laws are checked first."""
    scheduler.kv_cache_manager.new_step_starts()
    pool = core_pool(scheduler)
    check_integrity(pool)
    held = [
        f"request {handle} holds {record.held} and was granted {record.granted}"
        for handle, record in pool.requests.items()
    ]
    if any(pool.lease.blocks):
        held.append(f"{pool.lease.blocks} are leased")
    if any(pool.num_granted):
        held.append(f"{pool.num_granted} blocks are granted")
    if usage_of(pool).used_bytes:
        held.append(f"{usage_of(pool).used_bytes} bytes are in use")
    if scheduler.deferred_frees:
        held.append(f"{len(scheduler.deferred_frees)} frees are deferred for ever")
    return held


def _open(config: MixedKVCacheConfig) -> None:
    opened = open_pool(
        TARGET,
        engine="scripted",
        groups=config.plan.groups,
        pool_bytes=config.memory_bytes,
        num_workers=1,
        model="scripted",
        connect_timeout_s=10,
    )
    config.target, config.engine = TARGET, "scripted"
    config.pool_id, config.incarnation = opened.pool_id, opened.incarnation
    views = tuple(planned_views(config.plan))
    register_inproc_worker(opened.pool_id, views, config.plan.pool_bytes)
