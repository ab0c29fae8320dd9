"""Models with windows: vLLM's schedulers over kvquarry's manager and over stock vLLM's."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from kvquarry_core.group_rules import SlidingWindow
from tests.scheduler.cases import (
    BUSY,
    CHUNKED,
    FEW_LONG,
    LOOPS,
    MANY_SHORT,
    PLAIN,
    SLIDING,
    TWO_LENGTHS,
    TWO_SIZES,
    WINDOWS_AND_STATES,
    one_size_pools,
)
from tests.scheduler.geometry import Geometry
from tests.scheduler.quarry import QuarryPools
from tests.scheduler.settings import SchedulerSettings
from tests.scheduler.simulation import Loop, PoolFactory, Simulation
from tests.scheduler.stock import EagerStock, StockPools
from tests.scheduler.violation import Violation
from tests.scheduler.workload import Mix, make_script

#: Windows move within a prompt, since it takes several steps.
SMALL_STEPS = replace(PLAIN, max_num_batched_tokens=64)
TURNING = (FEW_LONG, MANY_SHORT, FEW_LONG)
#: Blocks that nothing here ever fills.
AMPLE = 4000


def simulate(
    pools: PoolFactory,
    loop: Loop,
    folder: Path,
    settings: SchedulerSettings = PLAIN,
    mixes: tuple[Mix, ...] = (BUSY, BUSY),
) -> Simulation:
    simulation = Simulation(pools, loop, settings, folder)
    simulation.run(make_script(5, mixes, turns_per_phase=40))
    return simulation


def assert_same_schedule(ours: Simulation, stock: Simulation) -> None:
    for number, steps in enumerate(zip(ours.trace.steps, stock.trace.steps, strict=True)):
        assert steps[0] == steps[1], f"step {number} differs"
    assert ours.trace.hit_tokens > 0


@pytest.mark.parametrize("loop", LOOPS, ids=lambda loop: loop.name)
@pytest.mark.parametrize(
    ("geometry", "settings"),
    [
        pytest.param(SLIDING, SMALL_STEPS, id="sliding"),
        pytest.param(CHUNKED, SMALL_STEPS, id="chunked"),
        pytest.param(replace(SLIDING, retention_interval=None), PLAIN, id="sliding-dense"),
        pytest.param(TWO_SIZES, SMALL_STEPS, id="two-sizes"),
        pytest.param(TWO_LENGTHS, SMALL_STEPS, id="two-lengths"),
        pytest.param(WINDOWS_AND_STATES, PLAIN, id="with-states"),
    ],
)
def test_with_room_for_all_every_step_is_stocks(
    geometry: Geometry, settings: SchedulerSettings, loop: Loop, tmp_path: Path
) -> None:
    stock = simulate(StockPools(geometry, AMPLE, EagerStock), loop, tmp_path, settings)
    memory_bytes = 2 * AMPLE * geometry.largest_page_bytes
    ours = simulate(QuarryPools(geometry, memory_bytes), loop, tmp_path, settings)
    assert_same_schedule(ours, stock)
    assert ours.trace.num_preemptions == 0


@pytest.mark.parametrize("loop", LOOPS, ids=lambda loop: loop.name)
@pytest.mark.parametrize(
    "geometry", [SLIDING, CHUNKED, TWO_LENGTHS], ids=["sliding", "chunked", "two-lengths"]
)
def test_with_one_size_and_little_room_every_step_is_stocks(
    geometry: Geometry, loop: Loop, tmp_path: Path
) -> None:
    """Sizes, evictions and preemptions included: windows take as much as stock vLLM says."""
    stock_pools, pools = one_size_pools(geometry, num_blocks=60)
    stock = simulate(stock_pools, loop, tmp_path)
    ours = simulate(pools, loop, tmp_path)
    assert_same_schedule(ours, stock)
    assert ours.trace.num_preemptions > 0


@pytest.mark.usefixtures("no_reserve")
@pytest.mark.parametrize("loop", LOOPS, ids=lambda loop: loop.name)
@pytest.mark.parametrize(
    ("geometry", "pool_bytes"),
    [
        pytest.param(WINDOWS_AND_STATES, 320_000, id="windows-and-states"),
        pytest.param(TWO_SIZES, 220_000, id="two-sizes"),
    ],
)
def test_a_tight_pool_of_several_sizes_keeps_the_laws(
    geometry: Geometry, pool_bytes: int, loop: Loop, tmp_path: Path
) -> None:
    pools = QuarryPools(geometry, pool_bytes)
    ours = simulate(pools, loop, tmp_path, mixes=TURNING)
    assert ours.trace.num_preemptions > 0
    assert ours.trace.hit_tokens > 0


@pytest.mark.parametrize("loop", LOOPS, ids=lambda loop: loop.name)
def test_a_window_that_gives_up_a_block_too_early_is_found(
    loop: Loop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = SlidingWindow.first_position

    def too_far(self: SlidingWindow, num_tokens: int) -> int:
        return right(self, num_tokens + self.block_tokens)

    monkeypatch.setattr(SlidingWindow, "first_position", too_far)
    with pytest.raises(Violation, match="uses blocks"):
        simulate(QuarryPools(SLIDING, 200_000), loop, tmp_path)
