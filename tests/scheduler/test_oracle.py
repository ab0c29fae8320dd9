"""The memory and the audits accept stock vLLM, and find every fault that is planted.

Each planted fault is a manager (or a plan) that is wrong in one way; if one of them went through,
the equalities elsewhere in this folder would prove nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from vllm.config import VllmConfig
from vllm.utils.hashing import sha256_cbor
from vllm.v1.core.kv_cache_manager import KVCacheManager

from tests.scheduler import sabotage
from tests.scheduler.cases import (
    ATTENTION,
    BUSY,
    DRAFTING,
    EAGLE,
    EVEN,
    LOOPS,
    MIXED,
    PLAIN,
    RESETTING,
    with_draft_layers,
    with_drafts,
)
from tests.scheduler.geometry import Geometry
from tests.scheduler.quarry import QuarryPools
from tests.scheduler.settings import SchedulerSettings
from tests.scheduler.simulation import (
    PIPELINED,
    STEPPED,
    HashFunction,
    Loop,
    Pool,
    PoolFactory,
    Simulation,
)
from tests.scheduler.stock import EagerStock, StockPools
from tests.scheduler.violation import Violation
from tests.scheduler.workload import make_script

SHORT_CHUNKS = replace(PLAIN, long_prefill_token_threshold=40)


@pytest.mark.parametrize("loop", LOOPS, ids=lambda loop: loop.name)
@pytest.mark.parametrize("manager", [KVCacheManager, EagerStock])
@pytest.mark.parametrize(
    ("geometry", "settings"),
    [
        pytest.param(ATTENTION, PLAIN, id="attention"),
        pytest.param(MIXED, PLAIN, id="hybrid"),
        pytest.param(with_drafts(MIXED), DRAFTING, id="hybrid-drafts"),
        pytest.param(with_draft_layers(MIXED), EAGLE, id="hybrid-draft-layers"),
    ],
)
def test_stock_vllm_keeps_every_law(
    geometry: Geometry,
    settings: SchedulerSettings,
    manager: type[KVCacheManager],
    loop: Loop,
    tmp_path: Path,
) -> None:
    simulation = Simulation(StockPools(geometry, 80, manager), loop, settings, tmp_path)
    simulation.run(make_script(11, [RESETTING] * 2, turns_per_phase=60))
    assert simulation.trace.num_preemptions > 0
    assert simulation.trace.hit_tokens > 0


@dataclass(frozen=True)
class Fault:
    """A pool with something wrong, and the words that tell what was found."""

    name: str
    pools: PoolFactory
    found: str
    settings: SchedulerSettings = PLAIN
    hash_function: HashFunction = sha256_cbor


def stock_fault(
    manager: type[KVCacheManager],
    found: str,
    geometry: Geometry = MIXED,
    settings: SchedulerSettings = PLAIN,
) -> Fault:
    num_blocks = 60 if geometry is ATTENTION else 90
    pools = StockPools(geometry, num_blocks, manager)
    return Fault(f"{manager.__name__}-{geometry.num_state_groups}", pools, found, settings)


@dataclass(frozen=True)
class BentPools:
    """kvquarry's pools, shown to the worker otherwise than they are accounted for."""

    pools: QuarryPools
    bend: Callable[[Pool], Pool]

    @property
    def block_tokens(self) -> int:
        return self.pools.block_tokens

    def open(self, vllm_config: VllmConfig) -> Pool:
        return self.bend(self.pools.open(vllm_config))


def _with_states_closer(pool: Pool) -> Pool:
    for tensor in pool.config.kv_cache_tensors[:-1]:
        tensor.block_stride -= 64
    return pool


def _with_states_shifted(pool: Pool) -> Pool:
    for tensor in pool.config.kv_cache_tensors[:-1]:
        tensor.offset += ATTENTION.page_bytes
    return pool


MIXED_POOLS = QuarryPools(MIXED, memory_bytes=400_000)
ANOTHERS = "another token's KV|part of a state|garbage|zeros"
FOREIGN = f"{ANOTHERS}|same bytes|which was not zeroed"

FAULTS = [
    stock_fault(sabotage.FreesTwice, f"{ANOTHERS}|blocks are held", ATTENTION),
    stock_fault(sabotage.FreesTwice, f"{ANOTHERS}|the same bytes belong|blocks are held"),
    stock_fault(sabotage.LeaksOnFree, "blocks are held", ATTENTION),
    stock_fault(sabotage.LeaksOnFree, "blocks are held"),
    stock_fault(sabotage.CommitsAhead, ANOTHERS, ATTENTION, SHORT_CHUNKS),
    stock_fault(sabotage.HitsTooFar, ANOTHERS, ATTENTION),
    stock_fault(sabotage.HitsTooFar, ANOTHERS),
    stock_fault(sabotage.HitsStatesAtOnce, "instead of the state after its own prefix"),
    stock_fault(sabotage.RetiresStatesEarly, "but holds"),
    stock_fault(sabotage.SkipsZeroing, "which was not zeroed"),
    stock_fault(sabotage.SkipsZeroing, "which was not zeroed", EVEN),
    stock_fault(sabotage.ZeroesTooMuch, "zeros"),
    stock_fault(sabotage.ShiftsStates, f"{ANOTHERS}|the same bytes belong"),
    Fault(
        "forgetful-hash",
        StockPools(ATTENTION, 60),
        ANOTHERS,
        hash_function=sabotage.forgetful_hash,
    ),
    Fault("states-closer", BentPools(MIXED_POOLS, _with_states_closer), FOREIGN),
    Fault("states-shifted", BentPools(MIXED_POOLS, _with_states_shifted), FOREIGN),
]


@pytest.mark.parametrize("loop", LOOPS, ids=lambda loop: loop.name)
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_planted_fault_is_found(fault: Fault, loop: Loop, tmp_path: Path) -> None:
    simulation = Simulation(fault.pools, loop, fault.settings, tmp_path, fault.hash_function)
    with pytest.raises(Violation, match=fault.found):
        simulation.run(make_script(1, [BUSY] * 2, turns_per_phase=150))


def test_a_free_that_should_have_been_deferred_is_found(tmp_path: Path) -> None:
    pools = StockPools(ATTENTION, 40, sabotage.IgnoresDeferral)
    simulation = Simulation(pools, PIPELINED, PLAIN, tmp_path)
    simulation.defer_frees()
    with pytest.raises(Violation, match="that a step in flight writes"):
        simulation.run(make_script(1, [BUSY] * 2, turns_per_phase=150))


def test_a_request_that_never_finishes_is_found(tmp_path: Path) -> None:
    class Refuses(KVCacheManager):
        def allocate_slots(self, *args: object, **kwargs: object) -> None:
            return None

    simulation = Simulation(StockPools(ATTENTION, 40, Refuses), STEPPED, PLAIN, tmp_path)
    with pytest.raises(Violation, match="never finish"):
        simulation.run(make_script(1, [BUSY], turns_per_phase=5))
