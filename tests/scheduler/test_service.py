"""Over a service in a process of its own, every step is as over the core in this process."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from kvquarry_core.messages import Answer, Ask
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
from tests.scheduler.workload import make_script

MIXES = (replace(BUSY, output_tokens=30), replace(RESETTING, output_tokens=30))


@pytest.fixture(scope="module")
def service() -> Iterator[RunningService]:
    with sound_service() as service:
        yield service


@pytest.mark.parametrize("loop", LOOPS, ids=lambda loop: loop.name)
@pytest.mark.parametrize(
    ("geometry", "settings", "memory_bytes"),
    [
        pytest.param(ATTENTION, PLAIN, 74_000, id="attention"),
        pytest.param(MIXED, PLAIN, 300_000, id="mixed"),
        pytest.param(with_drafts(MIXED), DRAFTING, 400_000, id="mixed-drafts"),
        pytest.param(with_draft_layers(MIXED), EAGLE, 400_000, id="mixed-draft-layers"),
        pytest.param(WINDOWS_AND_STATES, PLAIN, 320_000, id="windows-and-states"),
    ],
)
def test_a_service_decides_as_the_core_in_process_does(
    service: RunningService,
    geometry: Geometry,
    settings: SchedulerSettings,
    memory_bytes: int,
    loop: Loop,
    tmp_path: Path,
) -> None:
    """Every step compares the books, so all is done in the order in which it was called."""
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


@pytest.mark.parametrize("loop", LOOPS, ids=lambda loop: loop.name)
def test_requests_freed_behind_answers_change_no_decision_where_memory_is_plenty(
    service: RunningService, loop: Loop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = QuarryPools(MIXED, 20_000_000)
    in_process = Simulation(here, loop, PLAIN, tmp_path)
    remote = Simulation(replace(here, target=service.target), loop, PLAIN, tmp_path)
    ledger = remote.manager.shadow.ledger
    overtaken: list[int] = []
    ask_first = ledger.ask_first

    def told(asks: Sequence[Ask]) -> list[Answer]:
        overtaken.append(len(ledger._batch._frees))
        return ask_first(asks)

    monkeypatch.setattr(ledger, "ask_first", told)
    # Books are compared between a request's end and whoever is asked for next.
    monkeypatch.setattr(ledger, "compare_books", lambda digest: None)
    for simulation in (in_process, remote):
        simulation.run(make_script(1, MIXES[:1], turns_per_phase=60))
    assert sum(overtaken) > 5
    assert remote.trace.steps == in_process.trace.steps
    ledger.close()
