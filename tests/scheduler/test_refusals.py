"""A refused request is asked for again when the answer may have changed, and only then.

kvquarry remembers refusals, since asking costs an exchange. Each test brings a request to be
refused, lets one thing happen and expects it to run, in the same step as over stock vLLM's manager.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.scheduler.cases import ATTENTION, LOOPS, MIXED, PLAIN, one_size_pools
from tests.scheduler.quarry import QuarryPools
from tests.scheduler.scenes import Scene, hits, scheduled, words
from tests.scheduler.settings import SchedulerSettings
from tests.scheduler.simulation import PIPELINED, STEPPED, Loop, PoolFactory, Simulation
from tests.scheduler.stock import EagerStock, StockPools

NUM_BLOCKS = 33
BLOCK = ATTENTION.block_tokens
POOLS = one_size_pools(ATTENTION, NUM_BLOCKS)
STATEFUL_POOLS = [
    StockPools(replace(MIXED, retention_interval=None), 200, EagerStock),
    QuarryPools(replace(MIXED, retention_interval=None), 600_000),
]
LONG = words(20 * BLOCK - 12, seed=1)
ALSO_LONG = words(20 * BLOCK - 12, seed=2)

both_pools = pytest.mark.parametrize("pools", POOLS, ids=lambda pools: type(pools).__name__)
stateful_pools = pytest.mark.parametrize(
    "pools", STATEFUL_POOLS, ids=lambda pools: type(pools).__name__
)
both_loops = pytest.mark.parametrize("loop", LOOPS, ids=lambda loop: loop.name)


def scene_of(
    pools: PoolFactory, loop: Loop, folder: Path, settings: SchedulerSettings = PLAIN
) -> Scene:
    return Scene(Simulation(pools, loop, settings, folder))


def with_bystander(scene: Scene) -> Scene:
    """Somebody runs all the time: refusals are forgotten anyway where nobody does."""
    scene.start("bystander", words(2, seed=99))
    return scene


def refused(scene: Scene, request_id: str) -> None:
    """The request is looked up and stays where it is."""
    step = scene.step()
    assert request_id in scene.calls.looked_up
    assert request_id not in scheduled(step)


def finish_all(scene: Scene) -> None:
    scene.abort("bystander", "runner")
    scene.drain()


@both_loops
@both_pools
def test_after_a_free(pools: PoolFactory, loop: Loop, tmp_path: Path) -> None:
    scene = with_bystander(scene_of(pools, loop, tmp_path))
    scene.start("runner", LONG)
    scene.send("waiting", ALSO_LONG)
    refused(scene, "waiting")
    refused(scene, "waiting")
    scene.abort("runner")
    assert hits(scene.step()) == {"waiting": 0}
    finish_all(scene)


@both_pools
def test_after_a_commit(pools: PoolFactory, tmp_path: Path) -> None:
    """The runner fills a block that the waiting request, one block too large, can then share."""
    scene = scene_of(pools, STEPPED, tmp_path)
    scene.start("runner", words(10 * BLOCK, seed=3))
    for _ in range(4):
        scene.step()
    with_bystander(scene)
    said = scene.simulation.texts["runner"].tokens(0, 11 * BLOCK)
    scene.send("waiting", tuple(said) + words(20 * BLOCK, seed=4))
    runner = scene.scheduler.requests["runner"]
    while runner.num_computed_tokens < 11 * BLOCK - 1:
        refused(scene, "waiting")
    assert hits(scene.step()) == {"waiting": 11 * BLOCK}
    finish_all(scene)


@both_loops
@both_pools
def test_after_an_eviction(pools: PoolFactory, loop: Loop, tmp_path: Path) -> None:
    """The hit it was refused with is shorter when it is tried again."""
    prefix = words(8 * BLOCK, seed=4)
    scene = scene_of(pools, loop, tmp_path)
    scene.finish("donor", prefix + words(1, seed=5))
    scene.start("runner", words(16 * BLOCK - 2, seed=6), max_tokens=300)
    with_bystander(scene)
    scene.send("waiting", prefix + words(12 * BLOCK, seed=7))
    refused(scene, "waiting")
    while len(scene.simulation.manager.get_block_ids("runner")[0]) < 21:
        scene.step()
    scene.abort("runner")
    assert 0 < hits(scene.step())["waiting"] < len(prefix)
    finish_all(scene)


@both_loops
@both_pools
def test_after_a_reset(pools: PoolFactory, loop: Loop, tmp_path: Path) -> None:
    """A reset preempts all that run; they come back first, and the queue goes on behind them."""
    scene = with_bystander(scene_of(pools, loop, tmp_path))
    scene.start("runner", LONG)
    scene.send("waiting", ALSO_LONG)
    refused(scene, "waiting")
    assert scene.scheduler.reset_prefix_cache(reset_running_requests=True)
    assert hits(scene.step()) == {"bystander": 0, "runner": 0}
    refused(scene, "waiting")
    scene.abort("runner")
    assert hits(scene.step()) == {"waiting": 0}
    finish_all(scene)


@both_pools
def test_when_nothing_runs_any_more(pools: PoolFactory, tmp_path: Path) -> None:
    """The watermark lapses although nothing was freed: the free is deferred."""
    scene = scene_of(pools, PIPELINED, tmp_path, replace(PLAIN, watermark=0.7))
    scene.simulation.defer_frees()
    scene.start("runner", words(20, seed=7))
    scene.step()
    scene.send("waiting", words(200, seed=8))
    refused(scene, "waiting")
    scene.abort("runner")
    assert scene.scheduler.deferred_frees
    assert hits(scene.step()) == {"waiting": 0}
    scene.drain()


@both_loops
@stateful_pools
def test_in_the_step_after_a_new_state_was_refused(
    pools: PoolFactory, loop: Loop, tmp_path: Path
) -> None:
    scene = with_bystander(scene_of(pools, loop, tmp_path))
    scene.send("first", words(70, seed=10))
    scene.send("twin", words(70, seed=10))
    refused(scene, "twin")
    assert hits(scene.step()) == {"twin": 64}
    finish_all(scene)


@stateful_pools
def test_in_the_step_after_a_decoded_state_was_refused(pools: PoolFactory, tmp_path: Path) -> None:
    """Nothing but the new step speaks for the request: no free, no commit, no returned grant."""
    scene = scene_of(pools, STEPPED, tmp_path)
    scene.start("runner", words(2 * BLOCK + 3, seed=11))
    runner = scene.scheduler.requests["runner"]
    while runner.num_computed_tokens < 3 * BLOCK - 1:
        scene.step()
    said = scene.simulation.texts["runner"].tokens(0, 3 * BLOCK)
    scene.send("waiting", (*said, 1))
    refused(scene, "waiting")
    assert hits(scene.step()) == {"waiting": 3 * BLOCK}
    finish_all(scene)


def test_nothing_is_asked_while_nothing_changes(tmp_path: Path) -> None:
    """The head of the queue is looked up in every step, and answered from memory."""
    scene = scene_of(POOLS[1], STEPPED, tmp_path)
    scene.start("runner", LONG)
    scene.send("waiting", ALSO_LONG)
    refused(scene, "waiting")
    ledger: Any = scene.simulation.manager.shadow.ledger
    before, blocks = ledger.num_exchanges, len(scene.simulation.manager.get_block_ids("runner")[0])
    for _ in range(4):
        refused(scene, "waiting")
    assert len(scene.simulation.manager.get_block_ids("runner")[0]) == blocks
    assert ledger.num_exchanges == before
    finish_all(scene)
