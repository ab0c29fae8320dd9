"""Over a service in a process of its own, every step is as over the core in this process."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from kvquarry_client.outgoing import Outgoing
from kvquarry_client.session import Session
from kvquarry_client.wire.bearing import Bearing, Gathered, Texts
from tests.contract.running_service import RunningService, sound_service
from tests.scheduler.cases import (
    ATTENTION,
    BUSY,
    DRAFTING,
    EAGLE,
    LOOPS,
    MIXED,
    PLAIN,
    RESETTING,
    WINDOWS_AND_STATES,
    with_draft_layers,
    with_drafts,
)
from tests.scheduler.geometry import Geometry
from tests.scheduler.quarry import QuarryPools
from tests.scheduler.settings import SchedulerSettings
from tests.scheduler.simulation import Loop, Simulation
from tests.scheduler.trace import Trace
from tests.scheduler.workload import make_script

MIXES = (replace(BUSY, output_tokens=30), replace(RESETTING, output_tokens=30))


@pytest.fixture(scope="module")
def service() -> Iterator[RunningService]:
    with sound_service() as service:
        yield service


EACH_LOOP = pytest.mark.parametrize("loop", LOOPS, ids=lambda loop: loop.name)
TIGHT = pytest.mark.parametrize(
    ("geometry", "settings", "memory_bytes"),
    [
        pytest.param(ATTENTION, PLAIN, 74_000, id="attention"),
        pytest.param(MIXED, PLAIN, 300_000, id="mixed"),
        pytest.param(with_drafts(MIXED), DRAFTING, 400_000, id="mixed-drafts"),
        pytest.param(with_draft_layers(MIXED), EAGLE, 400_000, id="mixed-draft-layers"),
        pytest.param(WINDOWS_AND_STATES, PLAIN, 320_000, id="windows-and-states"),
    ],
)


@EACH_LOOP
@TIGHT
def test_a_service_decides_as_the_core_in_process_does(
    service: RunningService,
    geometry: Geometry,
    settings: SchedulerSettings,
    memory_bytes: int,
    loop: Loop,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Everything in the order in which it is called: an answer tells of the memory at its time."""
    monkeypatch.setattr(Session, "ask_first", Session.ask)
    here = QuarryPools(geometry, memory_bytes)
    simulations = [
        Simulation(pools, loop, settings, tmp_path)
        for pools in (here, replace(here, target=service.target))
    ]
    ledger, remote_ledger = (simulation.manager.shadow.ledger for simulation in simulations)
    for simulation in simulations:
        simulation.run(make_script(1, MIXES, turns_per_phase=60))
    in_process, remote = (simulation.trace for simulation in simulations)
    assert remote.steps == in_process.steps
    assert remote.hit_tokens > 0
    assert remote.num_preemptions > 0
    assert remote_ledger.num_exchanges == ledger.num_exchanges
    remote_ledger.close()


@pytest.fixture
def overtaken(monkeypatch: pytest.MonkeyPatch) -> Counter[str | None]:
    """What asks overtook, by sort."""
    counts: Counter[str | None] = Counter()
    leave_behind = Outgoing.leave_behind

    def count(self: Outgoing, texts: Texts) -> list[Gathered]:
        behind = leave_behind(self, texts)
        operations = (one for gathered in behind for one in gathered.message.batch.operations)
        counts.update(one.WhichOneof("operation") for one in operations)
        return behind

    monkeypatch.setattr(Outgoing, "leave_behind", count)
    return counts


def roomy_runs(target: str, loop: Loop, tmp_path: Path) -> tuple[Trace, Trace]:
    """The same script over the core in this process and over a service, where memory is plenty.

    The books are not compared, and evictions are not heard: less could be overtaken then.
    """
    here = QuarryPools(MIXED, 20_000_000, check_steps=0, hears_evictions=False)
    in_process = Simulation(here, loop, PLAIN, tmp_path)
    remote = Simulation(replace(here, target=target), loop, PLAIN, tmp_path)
    for simulation in (in_process, remote):
        simulation.run(make_script(1, MIXES[:1], turns_per_phase=60))
    remote.manager.shadow.ledger.close()
    return in_process.trace, remote.trace


@EACH_LOOP
def test_what_asks_overtake_changes_no_decision(
    service: RunningService, loop: Loop, tmp_path: Path, overtaken: Counter[str | None]
) -> None:
    in_process, remote = roomy_runs(service.target, loop, tmp_path)
    assert remote.steps == in_process.steps
    assert remote.hit_tokens > 0
    assert min(overtaken[sort] for sort in ("free", "take", "commit", "begin_step")) > 5


@EACH_LOOP
@TIGHT
def test_books_agree_where_asks_overtake_and_memory_comes_and_goes(
    service: RunningService,
    geometry: Geometry,
    settings: SchedulerSettings,
    memory_bytes: int,
    loop: Loop,
    tmp_path: Path,
    overtaken: Counter[str | None],
) -> None:
    pools = QuarryPools(geometry, memory_bytes, target=service.target, check_steps=7)
    simulation = Simulation(pools, loop, settings, tmp_path)
    simulation.run(make_script(1, MIXES, turns_per_phase=60))
    assert simulation.trace.num_preemptions > 0
    assert overtaken.total() > 0
    simulation.manager.shadow.ledger.close()


@EACH_LOOP
def test_to_overtake_what_bears_on_an_answer_would_change_decisions(
    service: RunningService, loop: Loop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The negative control of the test above."""
    monkeypatch.setattr(Bearing, "num_before", lambda self, texts: 0)
    in_process, remote = roomy_runs(service.target, loop, tmp_path)
    assert remote.steps != in_process.steps
