"""Blocks of running requests move, with steps in flight, and every read finds its own content."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from kvquarry_client.shadow import Shadow
from kvquarry_core.block_store import BlockStore
from kvquarry_core.ids import BlockId, ClassId, SlabId
from kvquarry_core.policies import PolicyNames
from kvquarry_core.relocation import Move
from tests.scheduler.cases import BUSY, LOOPS, MANY_SHORT, MIXED, PLAIN
from tests.scheduler.clearing import clear_all
from tests.scheduler.geometry import Geometry
from tests.scheduler.layout import GroupLayout
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


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> list[Move]:
    """The cached blocks that moved; at every third step all do that can, used ones or not."""
    begin_step, move_cached = Shadow.begin_step, BlockStore.move_cached
    steps, kept = itertools.count(1), list[Move]()

    def begin_step_and_move(shadow: Shadow) -> None:
        begin_step(shadow)
        if next(steps) % 3 == 0:
            shadow._rename(clear_all(shadow.ledger.pool))

    def noted(store: BlockStore, size_class: ClassId, source: BlockId, hole: SlabId) -> BlockId:
        target = move_cached(store, size_class, source, hole)
        kept.append(Move(size_class, source, target))
        return target

    monkeypatch.setattr(Shadow, "begin_step", begin_step_and_move)
    monkeypatch.setattr(BlockStore, "move_cached", noted)
    return kept


@pytest.mark.parametrize("loop", LOOPS, ids=lambda loop: loop.name)
def test_cached_content_follows_its_block(loop: Loop, kept: list[Move], tmp_path: Path) -> None:
    """What is hit was read, wherever it went, in memory that leaves room for a cache."""
    simulation = simulate(MIXED, 400_000, loop, tmp_path)
    assert 10 < len(kept) < simulation.worker.num_moves
    assert simulation.trace.hit_tokens > 0


def test_cached_content_that_is_not_copied_is_found(
    kept: list[Move], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All others are."""
    copy = PoolMemory.copy

    def copy_what_is_used(memory: PoolMemory, group: GroupLayout, source: int, target: int) -> None:
        move = Move(ClassId(group.size_class), BlockId(source), BlockId(target))
        if move in kept:
            kept.remove(move)
        else:
            copy(memory, group, source, target)

    monkeypatch.setattr(PoolMemory, "copy", copy_what_is_used)
    with pytest.raises(Violation):
        simulate(MIXED, 400_000, LOOPS[0], tmp_path)


@pytest.mark.usefixtures("no_reserve")
@pytest.mark.parametrize("loop", LOOPS, ids=lambda loop: loop.name)
def test_moves_without_copies_are_found(
    loop: Loop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(PoolMemory, "copy", lambda *_: None)
    with pytest.raises(Violation):
        simulate(MIXED, 150_000, loop, tmp_path)
