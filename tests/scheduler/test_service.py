"""Over a service in a process of its own, every step is as over the core in this process."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

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
    here = QuarryPools(geometry, memory_bytes)
    simulations = [
        Simulation(pools, loop, settings, tmp_path)
        for pools in (here, replace(here, target=service.target))
    ]
    for simulation in simulations:
        simulation.run(make_script(1, MIXES, turns_per_phase=60))
    in_process, remote = (simulation.trace for simulation in simulations)
    assert remote.steps == in_process.steps
    assert remote.hit_tokens > 0
    assert remote.num_preemptions > 0
    remote_ledger, ledger = (s.manager.shadow.ledger for s in reversed(simulations))
    assert remote_ledger.num_exchanges == ledger.num_exchanges
    remote_ledger.close()
