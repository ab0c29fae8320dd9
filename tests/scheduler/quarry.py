"""kvquarry's manager as the pool under test, over the core in this process or over a service."""

from __future__ import annotations

import itertools
import time
from collections import Counter
from dataclasses import dataclass

from vllm.config import VllmConfig
from vllm.v1.core.sched.scheduler import Scheduler

from kvquarry_client.engine import open_pool
from kvquarry_client.inproc import InprocLedger
from kvquarry_client.registration import WorkerMemory, register_worker
from kvquarry_client.target import parse_target
from kvquarry_core.integrity import check_integrity
from kvquarry_core.pins import DEFAULT_PIN_CAP
from kvquarry_core.policies import NO_CHOICE_BUT_STAY, PolicyNames
from kvquarry_core.pool import Pool as CorePool
from kvquarry_core.usage import usage_of
from kvquarry_core.worker_layout import planned_views
from kvquarry_vllm.config import MixedKVCacheConfig, mixed_config
from kvquarry_vllm.demo.service import read_status
from kvquarry_vllm.manager import make_kv_cache_manager
from tests.scheduler.audit import num_blocks_in_tables
from tests.scheduler.geometry import Geometry
from tests.scheduler.simulation import Pool

IN_PROCESS = "inproc:"
_PATIENCE_S = 10.0
_numbers = itertools.count(1)


@dataclass(frozen=True)
class QuarryPools:
    """Pools of kvquarry, each opened as an engine would.

    Attributes:
        memory_bytes: Memory of each pool, both layers of every group together.
        target: Where the accounting is.
        policies: What the pools go by.
        pin_cap: The share of each that pins may hold, in this process.
        check_steps: How often both sides' books are compared; 0 for never.
        hears_evictions: Whether the scheduler hears what became unfindable.
    """

    geometry: Geometry
    memory_bytes: int
    target: str = IN_PROCESS
    policies: PolicyNames = NO_CHOICE_BUT_STAY
    pin_cap: float = DEFAULT_PIN_CAP
    check_steps: int = 1
    hears_evictions: bool = True

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
        config.check_steps = self.check_steps
        config.moves_blocks = self.policies.relocation != NO_CHOICE_BUT_STAY.relocation
        _open(config, self)
        if self.target == IN_PROCESS:
            return Pool("kvquarry", config, make_kv_cache_manager, num_held, quarry_leaks)
        return Pool("kvquarry", config, make_kv_cache_manager, num_blocks_in_tables, service_leaks)


def core_pool(scheduler: Scheduler) -> CorePool:
    """The core's pool behind a scheduler."""
    ledger = scheduler.kv_cache_manager.shadow.ledger
    assert isinstance(ledger, InprocLedger)
    return ledger.pool


def num_held(scheduler: Scheduler) -> int:
    """Blocks that are neither free nor cached, all size classes together.

    Left out are the null blocks, what running requests were granted ahead, leased states that no
    running request uses now, what waiting requests keep that were looked up in the last step, and
    what pins alone hold. Nobody else may hold anything.
    """
    pool = core_pool(scheduler)
    classes = usage_of(pool).classes
    taken = sum(one.active + one.granted for one in classes)
    luxury = _num_granted_ahead(scheduler, pool) + _num_in_stock(scheduler, pool)
    return taken - luxury - _num_kept(scheduler, pool) - _num_pinned_alone(pool)


def _num_pinned_alone(pool: CorePool) -> int:
    num_pins = Counter(
        (size_class, block)
        for pin in pool.pins
        for size_class, blocks in zip(pool.plan.class_of_group, pin.held, strict=True)
        for block in blocks
    )
    return sum(pool.store.num_references(*key) == count for key, count in num_pins.items())


def _num_granted_ahead(scheduler: Scheduler, pool: CorePool) -> int:
    shadow = scheduler.kv_cache_manager.shadow
    running = [shadow.find(request.request_id) for request in scheduler.running]
    grants = [pool.requests[one.handle].granted for one in running]
    return sum(len(blocks) for granted in grants for blocks in granted)


def _num_kept(scheduler: Scheduler, pool: CorePool) -> int:
    shadow = scheduler.kv_cache_manager.shadow
    waiting = map(shadow.find_waiting, [one.request_id for one in scheduler.waiting])
    kept = {one.handle for one in waiting if one is not None}
    num_kept = 0
    for group in range(len(pool.plan.groups)):
        others = [one.held[group] for key, one in pool.requests.items() if key not in kept]
        in_use = {block for held in others for block in held}
        for handle in kept:
            record = pool.requests[handle]
            num_kept += len(record.granted[group])
            num_kept += len(set(record.held[group]) - in_use)
            in_use.update(record.held[group])
    return num_kept


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
    for pin in list(pool.pins):
        pool.unpin(pin.pin_id)
    check_integrity(pool)
    held = [
        f"request {handle} holds {record.held} and was granted {record.granted}"
        for handle, record in pool.requests.items()
    ]
    if any(pool.lease.blocks):
        held.append(f"{pool.lease.blocks} are leased")
    if any(pool.store.num_granted):
        held.append(f"{pool.store.num_granted} blocks are granted")
    if scheduler.kv_cache_manager.usage:
        held.append(f"usage is {scheduler.kv_cache_manager.usage}")
    if scheduler.deferred_frees:
        held.append(f"{len(scheduler.deferred_frees)} frees are deferred for ever")
    return held


def service_leaks(scheduler: Scheduler) -> list[str]:
    """What the service says that an idle engine's pool still holds, given time to hear of it."""
    manager = scheduler.kv_cache_manager
    manager.new_step_starts()
    manager.take_new_block_ids()
    config = manager.kv_cache_config
    give_up_at = time.monotonic() + _PATIENCE_S
    while used := _used(config):
        if time.monotonic() > give_up_at:
            return used
        time.sleep(0.01)
    return []


def _used(config: MixedKVCacheConfig) -> list[str]:
    assert config.target is not None
    return [
        f"{pool.usage.used_size_bytes} bytes are in use by {pool.request_count} requests"
        for pool in read_status(config.target).pools
        if pool.pool_id == config.pool_id and (pool.usage.used_size_bytes or pool.request_count)
    ]


def _open(config: MixedKVCacheConfig, pools: QuarryPools) -> None:
    engine, target = f"scripted-{next(_numbers)}", pools.target
    opened = open_pool(
        target,
        engine=engine,
        groups=config.plan.groups,
        pool_bytes=config.memory_bytes,
        num_workers=1,
        model="scripted",
        connect_timeout_s=_PATIENCE_S,
        policies=pools.policies,
        pin_cap=pools.pin_cap,
        hears_evictions=pools.hears_evictions,
    )
    config.target, config.engine = target, engine
    config.pool_id, config.incarnation = opened.pool_id, opened.incarnation
    config.retention = opened.policies.retention
    views = tuple(planned_views(config.plan))
    register_worker(
        parse_target(target),
        pool_id=opened.pool_id,
        incarnation=opened.incarnation,
        memory=WorkerMemory(0, 1, "none", config.plan.pool_bytes, views, b"scripted"),
        timeout_s=_PATIENCE_S,
    )
