"""vLLM's schedulers over kvquarry's manager and over stock vLLM's, fed the same script.

Where the pools are equal the schedules are equal, step by step: the same requests with the same
numbers of tokens, the same hits, the same preemptions. Where they cannot be compared, the laws
hold that the memory and the audits check in every step.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from tests.scheduler.cases import (
    ATTENTION,
    BUSY,
    DRAFTING,
    EVEN,
    FEW_LONG,
    LOOPS,
    MANY_SHORT,
    MIXED,
    PLAIN,
    RESETTING,
    one_size_pools,
    with_drafts,
)
from tests.scheduler.geometry import Geometry
from tests.scheduler.quarry import QuarryPools
from tests.scheduler.settings import SchedulerSettings
from tests.scheduler.simulation import STEPPED, Loop, PoolFactory, Simulation
from tests.scheduler.stock import EagerStock, StockPools
from tests.scheduler.workload import Mix, make_script

#: Steps that all cases of this file run over kvquarry's manager, at least.
MIN_STEPS = 20_000
#: Blocks that nothing here ever fills.
AMPLE = 3000
#: A pool that a handful of requests fill.
TIGHT_BYTES = 320_000
#: Share of stock's hits that is found where eviction goes another way, in tokens: whole rows of
#: checkpoints go at once, and with drafts a request keeps more states from the cache.
CLOSE = 0.75


@dataclass(frozen=True)
class Script:
    """A workload, and how many steps it makes at least."""

    seed: int
    min_steps: int
    mixes: tuple[Mix, ...] = (BUSY, BUSY)
    turns: int = 90


@dataclass(frozen=True)
class Case:
    """A cache and a scheduler for one workload."""

    name: str
    geometry: Geometry
    settings: SchedulerSettings
    script: Script


SMALL_STEPS = replace(PLAIN, max_num_batched_tokens=64)
SHORT_CHUNKS = replace(PLAIN, long_prefill_token_threshold=48)
UNRESERVED = replace(PLAIN, reserves_full_prompt=False)
WATERMARKED = replace(PLAIN, watermark=0.1)
DENSE = replace(MIXED, retention_interval=None)
TURNING = (FEW_LONG, MANY_SHORT, FEW_LONG, MANY_SHORT)

#: One size, and chunks as long as their grants: all decisions are stock's.
EQUAL_CASES = [
    Case("plain", ATTENTION, PLAIN, Script(1, 700)),
    Case("drafts", ATTENTION, DRAFTING, Script(2, 300)),
    Case("resets", ATTENTION, PLAIN, Script(3, 800, (RESETTING, RESETTING))),
    Case("watermark", ATTENTION, WATERMARKED, Script(4, 600)),
    Case("small-steps", ATTENTION, SMALL_STEPS, Script(5, 700)),
]

#: One size, and grants that may exceed the chunk: fewer requests may get in beside each other.
CLOSE_CASES = [
    Case("short-chunks", ATTENTION, SHORT_CHUNKS, Script(6, 650)),
    Case("unreserved", ATTENTION, UNRESERVED, Script(7, 650)),
    Case("even", EVEN, PLAIN, Script(8, 450)),
    Case("even-drafts", with_drafts(EVEN), DRAFTING, Script(9, 450)),
]

#: Several sizes or kinds, and room for everything.
AMPLE_CASES = [
    Case("mixed", MIXED, PLAIN, Script(1, 550)),
    Case("mixed-drafts", with_drafts(MIXED), DRAFTING, Script(2, 250)),
    Case("mixed-dense", DENSE, SHORT_CHUNKS, Script(3, 500)),
    Case("even", EVEN, PLAIN, Script(4, 450)),
    Case("mixed-interval", replace(MIXED, retention_interval=64), SHORT_CHUNKS, Script(5, 500)),
]

#: Several sizes and little room: kvquarry alone, in pools that stock vLLM cannot cut.
TIGHT_CASES = [
    Case("mixed", MIXED, PLAIN, Script(1, 550, TURNING)),
    Case("mixed-drafts", with_drafts(MIXED), DRAFTING, Script(2, 800, TURNING)),
    Case("mixed-resets", MIXED, PLAIN, Script(3, 600, (RESETTING, MANY_SHORT, RESETTING))),
    Case("mixed-unreserved", MIXED, UNRESERVED, Script(4, 650, TURNING)),
    Case("mixed-dense", DENSE, SMALL_STEPS, Script(5, 650, TURNING)),
]


def by_name(case: Case) -> str:
    return case.name


def simulate(pools: PoolFactory, loop: Loop, case: Case, folder: Path) -> Simulation:
    script = case.script
    simulation = Simulation(pools, loop, case.settings, folder)
    simulation.run(make_script(script.seed, script.mixes, turns_per_phase=script.turns))
    return simulation


def assert_same_schedule(ours: Simulation, stock: Simulation) -> None:
    for number, steps in enumerate(zip(ours.trace.steps, stock.trace.steps, strict=False)):
        assert steps[0] == steps[1], f"step {number} differs"
    assert ours.num_steps == stock.num_steps


@pytest.mark.parametrize("loop", LOOPS, ids=lambda loop: loop.name)
@pytest.mark.parametrize("case", EQUAL_CASES, ids=by_name)
def test_with_one_size_every_step_is_stocks(case: Case, loop: Loop, tmp_path: Path) -> None:
    stock_pools, pools = one_size_pools(case.geometry, num_blocks=36)
    stock = simulate(stock_pools, loop, case, tmp_path)
    ours = simulate(pools, loop, case, tmp_path)
    assert_same_schedule(ours, stock)
    assert ours.trace.num_preemptions > 0
    assert ours.trace.hit_tokens > 0
    assert ours.num_steps >= case.script.min_steps


@pytest.mark.usefixtures("no_reserve")
@pytest.mark.parametrize("case", CLOSE_CASES, ids=by_name)
def test_with_one_size_hits_are_close_to_stocks(case: Case, tmp_path: Path) -> None:
    """Both loops together: a single run is too short to compare what eviction left."""
    num_hits = {"stock": 0, "ours": 0}
    for loop in LOOPS:
        stock_pools, pools = one_size_pools(case.geometry, 36 + 20 * case.geometry.num_state_groups)
        num_hits["stock"] += simulate(stock_pools, loop, case, tmp_path).trace.first_hit_tokens
        ours = simulate(pools, loop, case, tmp_path)
        num_hits["ours"] += ours.trace.first_hit_tokens
        assert ours.trace.num_preemptions > 0
        assert ours.num_steps >= case.script.min_steps
    assert num_hits["ours"] >= CLOSE * num_hits["stock"]


@pytest.mark.parametrize("loop", LOOPS, ids=lambda loop: loop.name)
@pytest.mark.parametrize("case", AMPLE_CASES, ids=by_name)
def test_with_room_for_all_every_step_is_stocks(case: Case, loop: Loop, tmp_path: Path) -> None:
    stock = simulate(StockPools(case.geometry, AMPLE, EagerStock), loop, case, tmp_path)
    memory_bytes = 2 * AMPLE * case.geometry.state_bytes
    ours = simulate(QuarryPools(case.geometry, memory_bytes), loop, case, tmp_path)
    assert_same_schedule(ours, stock)
    assert ours.trace.num_preemptions == 0
    assert ours.trace.hit_tokens > 0
    assert ours.num_steps >= case.script.min_steps


@pytest.mark.usefixtures("no_reserve")
@pytest.mark.parametrize("loop", LOOPS, ids=lambda loop: loop.name)
@pytest.mark.parametrize("case", TIGHT_CASES, ids=by_name)
def test_a_tight_pool_of_states_and_attention_keeps_the_laws(
    case: Case, loop: Loop, tmp_path: Path
) -> None:
    ours = simulate(QuarryPools(case.geometry, TIGHT_BYTES), loop, case, tmp_path)
    memory = ours.worker.memory
    assert ours.trace.num_preemptions > 0
    assert ours.trace.hit_tokens > 0
    assert memory.num_turned_into_attention > 20
    assert memory.num_turned_into_states > 20
    assert ours.num_steps >= case.script.min_steps


def test_a_decode_reserve_keeps_requests_running(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    case, pools = TIGHT_CASES[0], QuarryPools(MIXED, TIGHT_BYTES)
    with_reserve = simulate(pools, STEPPED, case, tmp_path)
    request.getfixturevalue("no_reserve")
    without = simulate(pools, STEPPED, case, tmp_path)
    assert 10 * with_reserve.trace.num_preemptions < without.trace.num_preemptions


@pytest.mark.usefixtures("no_reserve")
@pytest.mark.parametrize("loop", LOOPS, ids=lambda loop: loop.name)
@pytest.mark.parametrize("geometry", [ATTENTION, MIXED], ids=["attention", "mixed"])
def test_deferred_frees_wait_for_steps_in_flight(
    geometry: Geometry, loop: Loop, tmp_path: Path
) -> None:
    pools = QuarryPools(geometry, 80_000 if geometry is ATTENTION else 300_000)
    simulation = Simulation(pools, loop, PLAIN, tmp_path)
    simulation.defer_frees()
    simulation.run(make_script(7, [BUSY] * 2, turns_per_phase=60))
    assert simulation.trace.num_preemptions > 0


def test_the_cases_make_20000_steps() -> None:
    cases = [*EQUAL_CASES, *CLOSE_CASES, *AMPLE_CASES, *TIGHT_CASES]
    assert sum(case.script.min_steps for case in cases) * len(LOOPS) >= MIN_STEPS
