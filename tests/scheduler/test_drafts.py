"""Layers that draft beside a pool of several sizes: what they read is what they wrote."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from vllm.v1.request import Request

from kvquarry_vllm import config
from kvquarry_vllm.grouping import group_specs
from kvquarry_vllm.manager import QuarryKVCacheManager
from tests.scheduler.cases import (
    ATTENTION,
    BUSY,
    EAGLE,
    FEW_LONG,
    LOOPS,
    MANY_SHORT,
    MIXED,
    RESETTING,
    SLIDING,
    one_size_pools,
    with_draft_layers,
)
from tests.scheduler.geometry import Geometry
from tests.scheduler.quarry import QuarryPools
from tests.scheduler.scenes import Scene, hits, words
from tests.scheduler.simulation import STEPPED, Loop, Simulation
from tests.scheduler.stock import EagerStock, StockPools
from tests.scheduler.violation import Violation
from tests.scheduler.workload import make_script

GEOMETRIES = {
    "attention": with_draft_layers(ATTENTION),
    "mixed": with_draft_layers(MIXED),
    "sliding": with_draft_layers(SLIDING),
}
TIGHT_BYTES = {"attention": 200_000, "mixed": 330_000, "sliding": 330_000}
TURNING = [FEW_LONG, MANY_SHORT, RESETTING, MANY_SHORT]
BLOCK = ATTENTION.block_tokens


def simulation(geometry: Geometry, loop: Loop, folder: Path, memory_bytes: int) -> Simulation:
    return Simulation(QuarryPools(geometry, memory_bytes), loop, EAGLE, folder)


@pytest.mark.usefixtures("no_reserve")
@pytest.mark.parametrize("loop", LOOPS, ids=lambda loop: loop.name)
@pytest.mark.parametrize("name", GEOMETRIES)
def test_a_tight_pool_with_layers_that_draft_keeps_the_laws(
    name: str, loop: Loop, tmp_path: Path
) -> None:
    ours = simulation(GEOMETRIES[name], loop, tmp_path, TIGHT_BYTES[name])
    ours.run(make_script(2, TURNING, turns_per_phase=50))
    assert ours.trace.num_preemptions > 0
    assert ours.trace.hit_tokens > 0
    assert ours.trace.num_accepted_drafts > 500
    assert ours.trace.num_rejected_drafts > 500


@pytest.mark.parametrize("loop", LOOPS, ids=lambda loop: loop.name)
def test_where_layers_that_draft_share_the_group_every_step_is_stocks(
    loop: Loop, tmp_path: Path
) -> None:
    stock_pools, pools = one_size_pools(ATTENTION, num_blocks=60)
    stock, ours = (Simulation(one, loop, EAGLE, tmp_path) for one in (stock_pools, pools))
    for one in (stock, ours):
        one.run(make_script(2, [BUSY] * 2, turns_per_phase=90))
    assert ours.trace.steps == stock.trace.steps
    assert ours.trace.num_preemptions > 0
    assert ours.trace.hit_tokens > 1000


@pytest.mark.parametrize("loop", LOOPS, ids=lambda loop: loop.name)
@pytest.mark.parametrize("name", GEOMETRIES)
def test_without_the_margin_a_draft_reads_what_anothers_next_token_made(
    name: str, loop: Loop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The negative control."""
    monkeypatch.setattr(config, "pool_groups", lambda _config, groups: group_specs(groups))
    scene = Scene(simulation(GEOMETRIES[name], loop, tmp_path, 2_000_000))
    common = words(6 * BLOCK, 1)
    scene.finish("one", common + words(20, 2))
    scene.send("other", common + words(20, 3))
    if name != "attention":  # the first to part there leaves what a hit needs there
        scene.drain()
        scene.send("third", common + words(20, 4))
    with pytest.raises(Violation, match=r"the draft of .* another token's KV"):
        scene.drain()


@pytest.mark.parametrize("loop", LOOPS, ids=lambda loop: loop.name)
def test_without_slots_ahead_drafts_leave_their_blocks(
    loop: Loop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The negative control: a step's drafts are written before the next step is planned."""
    allocate = QuarryKVCacheManager.allocate_slots

    def forget_lookahead(
        self: Any, request: Request, tokens: int, *args: Any, **kwargs: Any
    ) -> Any:
        kwargs["num_lookahead_tokens"] = 0
        return allocate(self, request, tokens, *args, **kwargs)

    monkeypatch.setattr(QuarryKVCacheManager, "allocate_slots", forget_lookahead)
    scene = Scene(simulation(GEOMETRIES["mixed"], loop, tmp_path, 2_000_000))
    scene.send("one", words(BLOCK - 1, 1), max_tokens=50)
    with pytest.raises(Violation, match="uses columns"):
        scene.drain()


@pytest.mark.parametrize("name", GEOMETRIES)
@pytest.mark.parametrize(("length", "resent"), [(100, 80), (95, 64), (97, 80)])
def test_a_prompt_sent_again_hits_one_block_less(
    name: str, length: int, resent: int, tmp_path: Path
) -> None:
    assert hits_of(name, tmp_path, words(length, 1), words(length, 1)) == [0, resent]


@pytest.mark.parametrize("name", GEOMETRIES)
def test_a_prompt_of_whole_blocks_is_hit_when_it_goes_on(name: str, tmp_path: Path) -> None:
    prompt = words(6 * BLOCK, 1)
    assert hits_of(name, tmp_path, prompt, prompt + words(9, 2)) == [0, 80]


@pytest.mark.parametrize("seed", [2, 3])
def test_another_copys_last_slot_is_read_no_more_often_than_by_stocks_drafts(
    seed: int, tmp_path: Path
) -> None:
    """The one exception, see :mod:`tests.scheduler.draft_layers`."""
    geometry = GEOMETRIES["mixed"]
    num_mistaken = []
    for pools in (StockPools(geometry, 3000, EagerStock), QuarryPools(geometry, 16_000_000)):
        one = Simulation(pools, STEPPED, EAGLE, tmp_path)
        one.run(make_script(seed, [BUSY] * 2, turns_per_phase=90))
        num_mistaken.append(one.worker.draft_layers.num_mistaken)
    stock, ours = num_mistaken
    assert 0 < ours <= stock


def test_a_prompt_of_whole_blocks_sent_again_is_hit_from_the_third_time_on(
    tmp_path: Path,
) -> None:
    """The scheduler ends no chunk two blocks before its end until a request has parted there."""
    prompt = words(6 * BLOCK, 1)
    assert hits_of("attention", tmp_path, prompt, prompt, prompt) == [0, 64, 64]
    assert hits_of("mixed", tmp_path, prompt, prompt, prompt) == [0, 0, 64]


def hits_of(name: str, folder: Path, *prompts: tuple[int, ...]) -> list[int]:
    """What each of some prompts hits, one after the other in a roomy pool."""
    scene = Scene(simulation(GEOMETRIES[name], STEPPED, folder, 2_000_000))
    found = []
    for index, prompt in enumerate(prompts):
        scene.send(f"r{index}", prompt)
        found.append(hits(scene.step())[f"r{index}"])
        scene.drain()
    return found
