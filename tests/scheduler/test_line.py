"""Who is asked for before it is his turn: as many as the step's tokens and places are for."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.scheduler.cases import ATTENTION, MIXED, PLAIN
from tests.scheduler.geometry import Geometry
from tests.scheduler.quarry import QuarryPools
from tests.scheduler.scenes import Scene, scheduled, words
from tests.scheduler.settings import SchedulerSettings
from tests.scheduler.simulation import STEPPED, Simulation

CACHES = pytest.mark.parametrize("geometry", [ATTENTION, MIXED], ids=["attention", "mixed"])
NAMES = [f"r{number}" for number in range(6)]


def roomy(geometry: Geometry, settings: SchedulerSettings, folder: Path) -> Scene:
    """An engine that has heard how much memory is free."""
    scene = Scene(Simulation(QuarryPools(geometry, 4_000_000), STEPPED, settings, folder))
    scene.finish("donor", words(20, seed=9))
    return scene


def send_all(scene: Scene, num_tokens: int) -> None:
    for number, name in enumerate(NAMES):
        scene.send(name, words(num_tokens, seed=number), max_tokens=30)


def held(scene: Scene) -> list[str]:
    """Those who wait and hold blocks."""
    return [name for name in NAMES if scene.simulation.manager.shadow.find_waiting(name)]


@CACHES
def test_nobody_is_asked_for_who_finds_no_place(geometry: Geometry, tmp_path: Path) -> None:
    scene = roomy(geometry, replace(PLAIN, max_num_seqs=3), tmp_path)
    send_all(scene, 20)
    assert [*scheduled(scene.step())] == NAMES[:3]
    assert held(scene) == []
    scene.drain()


@pytest.mark.parametrize(
    ("geometry", "step_tokens", "prompt_tokens", "num_started", "num_held"),
    [
        pytest.param(ATTENTION, 64, 32, 2, 0, id="all fit"),
        pytest.param(ATTENTION, 64, 40, 2, 0, id="the last in part"),
        pytest.param(MIXED, 64, 40, 2, 0, id="cut at blocks' ends, all tokens taken"),
        pytest.param(MIXED, 64, 20, 4, 0, id="cut, four"),
        pytest.param(MIXED, 64, 58, 2, 0, id="cut, the last in part"),
        pytest.param(MIXED, 60, 40, 2, 1, id="cut, too few tokens left for a block"),
    ],
)
def test_nobody_is_asked_for_who_is_not_looked_up(
    geometry: Geometry,
    step_tokens: int,
    prompt_tokens: int,
    num_started: int,
    num_held: int,
    tmp_path: Path,
) -> None:
    scene = roomy(geometry, replace(PLAIN, max_num_batched_tokens=step_tokens), tmp_path)
    send_all(scene, prompt_tokens)
    assert [*scheduled(scene.step())] == NAMES[:num_started]
    assert scene.calls.looked_up == NAMES[: num_started + num_held]
    assert held(scene) == NAMES[num_started : num_started + num_held]
    scene.drain()


@CACHES
def test_the_longest_chunk_leaves_tokens_to_others(geometry: Geometry, tmp_path: Path) -> None:
    settings = replace(PLAIN, max_num_batched_tokens=64, long_prefill_token_threshold=16)
    scene = roomy(geometry, settings, tmp_path)
    asked = scene.simulation.manager.shadow.ledger.num_exchanges
    send_all(scene, 100)
    assert [*scheduled(scene.step())] == NAMES[:4]
    assert scene.simulation.manager.shadow.ledger.num_exchanges == asked + 1
    scene.drain()


@CACHES
def test_the_line_is_the_scheduler_s(geometry: Geometry, tmp_path: Path) -> None:
    """Whoever came last and is most urgent stands first."""
    scene = roomy(geometry, replace(PLAIN, max_num_seqs=2, policy="priority"), tmp_path)
    send_all(scene, 20)
    for number, name in enumerate(NAMES):
        scene.scheduler.requests[name].priority = -number
    waiting = scene.scheduler.waiting
    requests = [waiting.pop_request() for _ in NAMES]
    for request in requests:
        waiting.add_request(request)
    assert [*scheduled(scene.step())] == [NAMES[5], NAMES[4]]
    assert held(scene) == []
    scene.drain()


def test_whoever_was_asked_for_and_leaves_holds_nothing(tmp_path: Path) -> None:
    scene = roomy(MIXED, replace(PLAIN, max_num_batched_tokens=60), tmp_path)
    send_all(scene, 40)
    scene.step()
    assert held(scene)
    scene.abort(*NAMES)
    assert held(scene) == []
    scene.drain()
