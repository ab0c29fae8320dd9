"""Blocks of running requests move, with steps in flight, and every read finds its own content."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvquarry_core.policies import PolicyNames
from tests.scheduler.cases import BUSY, LOOPS, MANY_SHORT, MIXED, PLAIN
from tests.scheduler.geometry import Geometry
from tests.scheduler.memory import PoolMemory
from tests.scheduler.quarry import QuarryPools
from tests.scheduler.simulation import Loop, Simulation
from tests.scheduler.violation import Violation
from tests.scheduler.workload import make_script

MOVING = PolicyNames("first-fit", "lru", "evacuate")
SCRIPT = make_script(7, [BUSY, MANY_SHORT], turns_per_phase=120)


def simulate(geometry: Geometry, memory_bytes: int, loop: Loop, folder: Path) -> Simulation:
    pools = QuarryPools(geometry, memory_bytes, policies=MOVING)
    simulation = Simulation(pools, loop, PLAIN, folder)
    simulation.run(SCRIPT)
    return simulation


@pytest.mark.usefixtures("no_reserve")
@pytest.mark.parametrize("loop", LOOPS, ids=lambda loop: loop.name)
@pytest.mark.parametrize("memory_bytes", [150_000, 220_000])
def test_content_follows_its_block(memory_bytes: int, loop: Loop, tmp_path: Path) -> None:
    simulation = simulate(MIXED, memory_bytes, loop, tmp_path)
    assert simulation.worker.num_moves > 10
    assert simulation.trace.hit_tokens > 0


@pytest.mark.usefixtures("no_reserve")
@pytest.mark.parametrize("loop", LOOPS, ids=lambda loop: loop.name)
def test_moves_without_copies_are_found(
    loop: Loop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(PoolMemory, "copy", lambda *_: None)
    with pytest.raises(Violation):
        simulate(MIXED, 150_000, loop, tmp_path)
