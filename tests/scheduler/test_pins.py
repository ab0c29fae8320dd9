"""Requests that pin their prompts or say how long their content is wanted, under vLLM's scheduler.

Every step is audited as everywhere here: what is hit is what was written, and nobody holds what no
request uses, pins left out.
"""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kvquarry_core.integrity import check_integrity
from kvquarry_core.pins import DEFAULT_PIN_CAP
from kvquarry_core.policies import PolicyNames
from tests.contract.running_service import RunningService, running_service
from tests.scheduler.cases import ATTENTION, BUSY, LOOPS, MIXED, PLAIN, SLIDING, WINDOWS_AND_STATES
from tests.scheduler.geometry import Geometry
from tests.scheduler.quarry import QuarryPools, core_pool
from tests.scheduler.scenes import Scene, words
from tests.scheduler.simulation import PIPELINED, STEPPED, Loop, Simulation
from tests.scheduler.test_progress import LONGEST, OUTPUT, SMALL_STATES, answer_all, scene_of
from tests.scheduler.workload import make_script

#: Room for about three requests of 300 tokens.
POOLS = {
    "attention": (ATTENTION, 74_000),
    "mixed": (MIXED, 300_000),
    "sliding": (SLIDING, 150_000),
    "windows-and-states": (WINDOWS_AND_STATES, 320_000),
}
HOUR = 3600
PROMPT_TOKENS = 100
WISHFUL = replace(BUSY, output_tokens=30, wish_percent=40, repeat_percent=30)


def open_scene(
    name: str, folder: Path, loop: Loop = STEPPED, pin_cap: float = DEFAULT_PIN_CAP
) -> Scene:
    geometry, memory_bytes = POOLS[name]
    pools = QuarryPools(geometry, memory_bytes, pin_cap=pin_cap)
    return Scene(Simulation(pools, loop, PLAIN, folder))


def flood(scene: Scene, first: int) -> None:
    """Others come and go until memory was used several times over."""
    for number in range(first, first + 25):
        scene.finish(f"other-{number}", words(200, seed=1000 + number))


def hit_tokens(scene: Scene, request_id: str, prompt: tuple[int, ...], **wishes: Any) -> int:
    """What a request finds; it is answered and gone afterwards."""
    before = scene.simulation.trace.hit_tokens
    scene.finish(request_id, prompt, **wishes)
    return scene.simulation.trace.hit_tokens - before


@pytest.mark.parametrize(
    ("name", "loop"),
    [
        ("attention", STEPPED),
        ("mixed", PIPELINED),
        ("sliding", STEPPED),
        ("windows-and-states", PIPELINED),
    ],
)
def test_a_pinned_prompt_is_hit_when_all_others_are_gone(
    name: str, loop: Loop, tmp_path: Path
) -> None:
    """By the same prompt, and by a longer one; until somebody lets go of it."""
    scene = open_scene(name, tmp_path, loop)
    wanted, other = words(PROMPT_TOKENS, seed=1), words(PROMPT_TOKENS, seed=2)
    scene.finish("wanted", wanted, kvquarry_pin_s=HOUR)
    scene.finish("other", other)
    flood(scene, 0)
    assert hit_tokens(scene, "other again", other) == 0
    assert hit_tokens(scene, "wanted again", wanted) == 96
    assert hit_tokens(scene, "longer", wanted + words(30, seed=3)) == 96
    assert hit_tokens(scene, "last", wanted, kvquarry_pin_s=0) == 96
    flood(scene, 100)
    assert hit_tokens(scene, "too late", wanted) == 0
    scene.drain()


@pytest.mark.parametrize("name", ["attention", "mixed"])
def test_a_higher_priority_outlives_younger_content(name: str, tmp_path: Path) -> None:
    scene = open_scene(name, tmp_path)
    wanted = words(PROMPT_TOKENS, seed=1)
    scene.finish("wanted", wanted, kvquarry_priority=2)
    flood(scene, 0)
    assert hit_tokens(scene, "again", wanted) == 96
    for number in range(20):
        scene.finish(f"equal-{number}", words(200, seed=number), kvquarry_priority=2)
    assert hit_tokens(scene, "too late", wanted) == 0
    scene.drain()


@pytest.mark.parametrize("name", ["attention", "mixed"])
def test_a_prompt_of_several_chunks_is_pinned_as_a_whole(name: str, tmp_path: Path) -> None:
    scene = open_scene(name, tmp_path, pin_cap=0.8)
    others = [words(60, seed=number) for number in range(3)]
    for number, prompt in enumerate(others):
        scene.send(f"beside-{number}", prompt, 20)
    wanted = words(300, seed=9)
    scene.finish("wanted", wanted, 30, kvquarry_pin_s=HOUR)
    [pin] = core_pool(scene.scheduler).pins
    assert pin.num_tokens == 288
    scene.drain()


def test_a_prompt_that_was_found_whole_is_pinned_too(tmp_path: Path) -> None:
    """Nothing of it is committed then."""
    scene = open_scene("attention", tmp_path)
    prompt = words(PROMPT_TOKENS, seed=1)
    scene.finish("first", prompt)
    scene.finish("second", prompt, kvquarry_pin_s=HOUR)
    [pin] = core_pool(scene.scheduler).pins
    assert pin.num_tokens == 96
    scene.drain()


def test_the_same_prompt_again_extends_its_pin(tmp_path: Path) -> None:
    scene = open_scene("mixed", tmp_path)
    prompt = words(PROMPT_TOKENS, seed=1)
    scene.finish("short", prompt, kvquarry_pin_s=60)
    [before] = core_pool(scene.scheduler).pins
    scene.finish("long", prompt, kvquarry_pin_s=HOUR)
    [after] = core_pool(scene.scheduler).pins
    assert after.deadline_s > before.deadline_s + HOUR / 2
    scene.drain()


def test_who_waits_for_a_pins_memory_does_not_wait_for_whoever_runs(tmp_path: Path) -> None:
    """Nobody says that a pin lapsed; a request that was refused asks again now and then."""
    scene = open_scene("attention", tmp_path, pin_cap=0.8)
    scene.finish("pinned", words(200, seed=1), kvquarry_pin_s=0.2)
    scene.start("runs", words(100, seed=2), max_tokens=150)
    scene.send("waits", words(270, seed=3), 2)
    scene.step()
    assert [one.request_id for one in scene.scheduler.running] == ["runs"]
    time.sleep(0.25)
    for _ in range(100):
        scene.step()
    assert "waits" not in scene.scheduler.requests
    assert "runs" in scene.scheduler.requests
    scene.drain()


def test_an_aborted_request_pins_nothing_that_was_not_computed(tmp_path: Path) -> None:
    scene = open_scene("attention", tmp_path)
    prompt = words(PROMPT_TOKENS, seed=1)
    scene.send("gone", prompt, kvquarry_pin_s=HOUR)
    scene.abort("gone")
    scene.finish("gone", prompt)
    assert not list(core_pool(scene.scheduler).pins)
    scene.drain()


def test_a_reset_of_the_cache_succeeds_and_drops_pins(tmp_path: Path) -> None:
    scene = open_scene("mixed", tmp_path)
    prompt = words(PROMPT_TOKENS, seed=1)
    scene.finish("wanted", prompt, kvquarry_pin_s=HOUR)
    assert scene.scheduler.reset_prefix_cache()
    assert not list(core_pool(scene.scheduler).pins)
    assert hit_tokens(scene, "again", prompt) == 0
    scene.drain()


def test_a_refused_pin_is_told_with_the_numbers_and_its_request_answered(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging.getLogger("vllm"), "propagate", True)
    scene = open_scene("attention", tmp_path, pin_cap=0.01)
    scene.finish("wanted", words(PROMPT_TOKENS, seed=1), kvquarry_pin_s=HOUR)
    scene.finish("another", words(PROMPT_TOKENS, seed=2), kvquarry_pin_s=HOUR)
    told = [one.getMessage() for one in caplog.records if "does not pin" in one.getMessage()]
    assert len(told) == 1, "once a minute"
    assert "request wanted: all pins together would hold more" in told[0]
    assert "pins hold 0 of at most 7" in told[0]
    assert core_pool(scene.scheduler).totals.pins_refused == 2
    scene.drain()


@pytest.mark.parametrize(
    "wishes",
    [
        {"kvquarry_pin_s": -1},
        {"kvquarry_pin_s": float("nan")},
        {"kvquarry_pin_s": "an hour"},
        {"kvquarry_pin_s": 1e300},
        {"kvquarry_priority": 9},
        {"kvquarry_priority": [1]},
        {"kvquarry_pin": HOUR},
    ],
    ids=str,
)
def test_what_nobody_understands_stops_no_engine(wishes: dict[str, Any], tmp_path: Path) -> None:
    scene = open_scene("attention", tmp_path)
    scene.finish("odd", words(PROMPT_TOKENS, seed=1), **wishes)
    assert not list(core_pool(scene.scheduler).pins)
    scene.drain()


@pytest.mark.parametrize("loop", LOOPS, ids=lambda loop: loop.name)
@pytest.mark.parametrize(
    "geometry", [ATTENTION, SMALL_STATES, MIXED], ids=["attention", "small-states", "mixed"]
)
def test_whoever_fits_an_empty_pool_is_admitted_though_everybody_pins(
    geometry: Geometry, loop: Loop, tmp_path: Path
) -> None:
    """All of a pool may be pinned that is just large enough for one of the longest requests."""
    rng = random.Random(1)
    scene = scene_of(geometry, tmp_path, loop, pin_cap=1.0)
    for number in range(30):
        length, output = rng.randint(1, LONGEST), rng.randint(1, OUTPUT)
        scene.finish(f"r{number}", words(length, seed=number), output, kvquarry_pin_s=HOUR)
    pins = core_pool(scene.scheduler).pins
    assert pins.num_broken > 5
    scene.drain()


def test_nobody_is_admitted_less_without_pins(tmp_path: Path) -> None:
    """The same scene, to compare."""
    scene = scene_of(ATTENTION, tmp_path)
    answer_all(scene, [(LONGEST, OUTPUT)] * 3)


@pytest.mark.parametrize(
    ("name", "relocation", "loop"),
    [
        ("attention", "off", STEPPED),
        ("mixed", "evacuate", PIPELINED),
        ("sliding", "off", PIPELINED),
        ("windows-and-states", "evacuate", STEPPED),
    ],
)
def test_any_wishes_leave_every_answer_right(
    name: str, relocation: str, loop: Loop, tmp_path: Path
) -> None:
    geometry, memory_bytes = POOLS[name]
    policies = PolicyNames(relocation=relocation)
    pools = QuarryPools(geometry, memory_bytes, policies=policies, pin_cap=0.5)
    simulation = Simulation(pools, loop, PLAIN, tmp_path)
    simulation.run(make_script(5, (WISHFUL, WISHFUL), turns_per_phase=50))
    pool = core_pool(simulation.scheduler)
    check_integrity(pool)
    assert pool.totals.pins > 5
    assert simulation.trace.hit_tokens > 0


@pytest.fixture(scope="module")
def service() -> Iterator[RunningService]:
    with running_service("--pin-cap", "0.5") as service:
        yield service
        assert service.bugs == []


@pytest.mark.parametrize("name", ["attention", "mixed"])
def test_a_service_pins_as_the_core_in_process_does(
    name: str, service: RunningService, tmp_path: Path
) -> None:
    geometry, memory_bytes = POOLS[name]
    here = QuarryPools(geometry, memory_bytes, pin_cap=0.5)
    simulations = [
        Simulation(pools, STEPPED, PLAIN, tmp_path)
        for pools in (here, replace(here, target=service.target))
    ]
    script = make_script(6, (WISHFUL,), turns_per_phase=60)
    for simulation in simulations:
        for phase in script:
            for turn in phase.turns:
                simulation.turn(turn)
    in_process, remote = (simulation.trace for simulation in simulations)
    assert remote.steps == in_process.steps
    assert remote.hit_tokens > 0
    ledgers = [simulation.manager.shadow.ledger for simulation in simulations]
    assert ledgers[0].num_exchanges == ledgers[1].num_exchanges
    ledgers[1].close()
