"""Slots told as empty are those that a worker under vLLM's own scheduler has not written (C15)."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from vllm.v1.core.sched.output import SchedulerOutput

from kvquarry_client.empty_slots import EmptySlots
from tests.scheduler.cases import (
    ATTENTION,
    BUSY,
    CHUNKED,
    LOOPS,
    MIXED,
    PLAIN,
    RESETTING,
    SLIDING,
    TWO_LENGTHS,
)
from tests.scheduler.geometry import Geometry
from tests.scheduler.layout import NULL_BLOCK, GroupLayout
from tests.scheduler.quarry import QuarryPools
from tests.scheduler.simulation import STEPPED, Loop, Simulation
from tests.scheduler.violation import Violation
from tests.scheduler.worker import StepRecord
from tests.scheduler.workload import make_script

MIXES = (BUSY, RESETTING)


@dataclass
class SlotAudit:
    """Goes through all tables in every step, block by block.

    Attributes:
        num_shared: Blocks that were seen in two tables at once.
    """

    simulation: Simulation
    num_shared: int = 0
    _stops: dict[str, int] = field(default_factory=dict)

    def step_ran(self, output: SchedulerOutput, record: StepRecord) -> None:
        """Check one step: tokens are written up to where the request's last chunk stopped."""
        self._stops.update({one.resident.request_id: one.stop for one in record.chunks})
        groups = self.simulation.worker.memory.layout.attention
        written: Counter[int] = Counter()
        for group in groups:
            written[group.size_class] += self._num_empty(group)
        told = self.simulation.manager.shadow.ledger.slot_use().empty_slots
        for size_class, num_empty in written.items():
            if told[size_class] != num_empty:
                raise Violation(
                    f"{num_empty} slots of class {size_class} are empty, {told[size_class]} told"
                )

    def _num_empty(self, group: GroupLayout) -> int:
        furthest: dict[int, int] = {}
        for request in self.simulation.scheduler.running:
            name = request.request_id
            table = self.simulation.manager.get_block_ids(name)[group.index]
            for position, block in enumerate(table):
                if block != NULL_BLOCK:
                    here = min(
                        self._stops[name] - position * group.block_tokens, group.block_tokens
                    )
                    self.num_shared += block in furthest
                    furthest[block] = max(furthest.get(block, 0), here)
        return sum(group.block_tokens - here for here in furthest.values())


def audited(geometry: Geometry, memory_bytes: int, loop: Loop, folder: Path) -> SlotAudit:
    """Run a script and check every step of it."""
    simulation = Simulation(QuarryPools(geometry, memory_bytes), loop, PLAIN, folder)
    audit = SlotAudit(simulation)
    simulation.engine.state.observers.append(audit)
    simulation.run(make_script(1, MIXES, turns_per_phase=60))
    return audit


@pytest.mark.parametrize("loop", LOOPS, ids=lambda loop: loop.name)
@pytest.mark.parametrize(
    ("geometry", "memory_bytes"),
    [
        pytest.param(ATTENTION, 74_000, id="attention"),
        pytest.param(MIXED, 300_000, id="mixed"),
        pytest.param(SLIDING, 150_000, id="sliding"),
        pytest.param(CHUNKED, 150_000, id="chunked"),
        pytest.param(TWO_LENGTHS, 200_000, id="two-lengths"),
    ],
)
def test_slots_told_as_empty_are_those_that_no_step_has_written(
    geometry: Geometry, memory_bytes: int, loop: Loop, tmp_path: Path
) -> None:
    audit = audited(geometry, memory_bytes, loop, tmp_path)
    assert audit.num_shared > 0
    assert audit.simulation.trace.hit_tokens > 0


def test_the_audit_finds_one_slot_too_many(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Negative control."""
    count = EmptySlots.count
    monkeypatch.setattr(EmptySlots, "count", lambda self: [one + 1 for one in count(self)])
    with pytest.raises(Violation, match="slots of class 0 are empty"):
        audited(ATTENTION, 74_000, STEPPED, tmp_path)
