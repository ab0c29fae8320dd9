"""A state committed in a step is hit from the next step on, an attention block at once."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.scheduler.cases import ATTENTION, EVEN, LOOPS, MIXED, PLAIN, with_drafts
from tests.scheduler.geometry import Geometry
from tests.scheduler.quarry import QuarryPools
from tests.scheduler.scenes import Scene, hits, scheduled, words
from tests.scheduler.simulation import Loop, PoolFactory, Simulation
from tests.scheduler.stock import EagerStock, StockPools

PROMPT = words(70, seed=1)
STATEFUL = {"mixed": MIXED, "even": EVEN, "drafts": with_drafts(MIXED)}


def both(geometry: Geometry) -> list[PoolFactory]:
    return [StockPools(geometry, 200, EagerStock), QuarryPools(geometry, memory_bytes=600_000)]


def scene_of(pools: PoolFactory, loop: Loop, folder: Path) -> Scene:
    return Scene(Simulation(pools, loop, PLAIN, folder))


@pytest.mark.parametrize("loop", LOOPS, ids=lambda loop: loop.name)
@pytest.mark.parametrize("pools", both(ATTENTION), ids=lambda pools: type(pools).__name__)
def test_equal_prompts_share_attention_in_the_step_that_writes_it(
    pools: PoolFactory, loop: Loop, tmp_path: Path
) -> None:
    scene = scene_of(pools, loop, tmp_path)
    scene.send("first", PROMPT)
    scene.send("twin", PROMPT)
    step = scene.step()
    assert hits(step) == {"first": 0, "twin": 64}
    assert scheduled(step) == {"first": 70, "twin": 6}
    scene.drain()


@pytest.mark.parametrize("loop", LOOPS, ids=lambda loop: loop.name)
@pytest.mark.parametrize("geometry", STATEFUL.values(), ids=STATEFUL.keys())
@pytest.mark.parametrize("side", ["stock", "kvquarry"])
def test_equal_prompts_wait_for_the_state(
    side: str, geometry: Geometry, loop: Loop, tmp_path: Path
) -> None:
    stock, ours = both(geometry)
    scene = scene_of(stock if side == "stock" else ours, loop, tmp_path)
    scene.send("first", PROMPT)
    scene.send("twin", PROMPT)
    step = scene.step()
    assert hits(step) == {"first": 0}
    assert "twin" in scene.calls.looked_up
    assert hits(scene.step())["twin"] == 64
    scene.drain()


@pytest.mark.parametrize("loop", LOOPS, ids=lambda loop: loop.name)
def test_a_state_that_is_complete_is_hit_although_it_is_named_again(
    loop: Loop, tmp_path: Path
) -> None:
    """Stock makes the third request wait while the second one, which hit, names the state."""
    scene = scene_of(both(MIXED)[1], loop, tmp_path)
    scene.finish("donor", PROMPT)
    scene.send("second", PROMPT)
    scene.send("third", PROMPT)
    assert hits(scene.step()) == {"second": 64, "third": 64}
    scene.drain()


def test_a_step_without_tokens_ends_the_step_of_a_state(tmp_path: Path) -> None:
    """Also when what ran was aborted: the next ``new_step_starts`` counts, not the next chunk."""
    scene = scene_of(both(MIXED)[1], LOOPS[0], tmp_path)
    scene.send("first", PROMPT)
    scene.step()
    scene.abort("first")
    scene.send("twin", PROMPT)
    assert hits(scene.step()) == {"twin": 64}
    scene.drain()


def test_an_empty_cache_is_not_hit(tmp_path: Path) -> None:
    scene = scene_of(both(replace(MIXED, retention_interval=None))[1], LOOPS[0], tmp_path)
    scene.finish("donor", PROMPT)
    assert scene.scheduler.reset_prefix_cache()
    scene.send("twin", PROMPT)
    assert hits(scene.step()) == {"twin": 0}
    scene.drain()
