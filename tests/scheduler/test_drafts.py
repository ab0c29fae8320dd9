"""Layers that draft beside a pool of several sizes: what they read is what they wrote."""

from __future__ import annotations

from dataclasses import replace
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
    TWO_LENGTHS,
    one_size_pools,
    with_draft_layers,
)
from tests.scheduler.geometry import Geometry
from tests.scheduler.quarry import QuarryPools, core_pool
from tests.scheduler.scenes import Scene, hits, words
from tests.scheduler.simulation import PIPELINED, STEPPED, Loop, Simulation
from tests.scheduler.stock import EagerStock, StockPools
from tests.scheduler.violation import Violation
from tests.scheduler.workload import make_script

GEOMETRIES = {
    "attention": with_draft_layers(ATTENTION),
    "mixed": with_draft_layers(MIXED),
    "sliding": with_draft_layers(SLIDING),
}
TIGHT_BYTES = {
    "attention": 200_000,
    "mixed": 330_000,
    "sliding": 330_000,
    "two-lengths": 330_000,
}
#: Blocks of the layers that draft that are four times as long as all others; a window's, twice.
COARSE = {name: replace(GEOMETRIES[name], draft_block_tokens=64) for name in GEOMETRIES} | {
    "two-lengths": with_draft_layers(TWO_LENGTHS)
}
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
    assert ours.worker.draft_layers.num_mistaken == 0


def both_busy(loop: Loop, folder: Path, num_blocks: int) -> tuple[Simulation, Simulation]:
    """Stock and we have served the same, with equally many blocks of one size."""
    stock_pools, pools = one_size_pools(ATTENTION, num_blocks)
    stock, ours = (Simulation(one, loop, EAGLE, folder) for one in (stock_pools, pools))
    for one in (stock, ours):
        one.run(make_script(2, [BUSY] * 2, turns_per_phase=90))
    return stock, ours


@pytest.mark.parametrize("loop", LOOPS, ids=lambda loop: loop.name)
def test_where_layers_that_draft_share_the_group_every_step_is_stocks(
    loop: Loop, tmp_path: Path
) -> None:
    stock, ours = both_busy(loop, tmp_path, num_blocks=300)
    assert ours.trace.steps == stock.trace.steps
    assert ours.trace.hit_tokens > 1000


@pytest.mark.parametrize("loop", LOOPS, ids=lambda loop: loop.name)
def test_in_a_tight_pool_more_is_hit_than_with_stock(loop: Loop, tmp_path: Path) -> None:
    """A block that is kept there for nothing but to see how a match goes on is free here."""
    stock, ours = both_busy(loop, tmp_path, num_blocks=60)
    assert ours.trace.num_preemptions > 0
    assert ours.trace.hit_tokens > stock.trace.hit_tokens > 1000


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
    assert hits_of(GEOMETRIES, name, tmp_path, words(length, 1), words(length, 1)) == [0, resent]


@pytest.mark.parametrize("geometries", [GEOMETRIES, COARSE], ids=["fine", "coarse"])
def test_a_pin_reaches_as_far_as_the_same_prompt_hits(
    geometries: dict[str, Geometry], tmp_path: Path
) -> None:
    scene = Scene(simulation(geometries["mixed"], STEPPED, tmp_path, 2_000_000))
    prompt = words(210, 1)
    scene.finish("pinned", prompt, kvquarry_pin_s=3600)
    [pin] = core_pool(scene.scheduler).pins
    scene.send("again", prompt)
    assert pin.num_tokens == hits(scene.step())["again"] == 192
    scene.drain()


@pytest.mark.parametrize("name", COARSE)
def test_where_drafts_have_coarse_blocks_a_prompt_sent_again_loses_no_such_block(
    name: str, tmp_path: Path
) -> None:
    """Hits end at multiples of 64: 209 tokens less 16 make 192, less 64 they make 128."""
    prompt = words(210, 1)
    assert hits_of(COARSE, name, tmp_path, prompt, prompt) == [0, 192]


@pytest.mark.parametrize(("name", "second"), [("attention", 128), ("mixed", 0), ("sliding", 0)])
def test_a_junction_is_where_who_parts_there_resumes(
    name: str, second: int, tmp_path: Path
) -> None:
    """The first to part there leaves what a hit needs, for blocks as long as a hash unit or not."""
    prompts = [words(192, 1) + words(18 + n, n) for n in range(3)]
    assert hits_of(COARSE, name, tmp_path, *prompts) == [0, second, 128]
    fine = 176 if second else 0
    assert hits_of(GEOMETRIES, name, tmp_path, *prompts) == [0, fine, 176]


@pytest.mark.usefixtures("no_reserve")
@pytest.mark.parametrize("name", COARSE)
def test_where_drafts_have_coarse_blocks_every_slot_they_read_is_theirs(
    name: str, tmp_path: Path
) -> None:
    ours = simulation(COARSE[name], PIPELINED, tmp_path, 2 * TIGHT_BYTES[name])
    ours.run(make_script(2, [FEW_LONG, MANY_SHORT], turns_per_phase=50))
    assert ours.trace.hit_tokens > 0
    assert ours.worker.draft_layers.num_mistaken == 0


@pytest.mark.parametrize("name", GEOMETRIES)
def test_a_prompt_of_whole_blocks_is_hit_when_it_goes_on(name: str, tmp_path: Path) -> None:
    prompt = words(6 * BLOCK, 1)
    assert hits_of(GEOMETRIES, name, tmp_path, prompt, prompt + words(9, 2)) == [0, 80]


@pytest.mark.parametrize("seed", [2, 3])
def test_another_copys_last_slot_is_read_by_stocks_drafts_alone(seed: int, tmp_path: Path) -> None:
    """Stock's one exception, see :mod:`tests.scheduler.draft_layers`."""
    geometry = GEOMETRIES["mixed"]
    num_mistaken = []
    for pools in (StockPools(geometry, 3000, EagerStock), QuarryPools(geometry, 16_000_000)):
        one = Simulation(pools, STEPPED, EAGLE, tmp_path)
        one.run(make_script(seed, [BUSY] * 2, turns_per_phase=90))
        num_mistaken.append(one.worker.draft_layers.num_mistaken)
    stock, ours = num_mistaken
    assert ours == 0 < stock


def test_a_prompt_of_whole_blocks_sent_again_is_hit_from_the_third_time_on(
    tmp_path: Path,
) -> None:
    """The scheduler ends no chunk two blocks before its end until a request has parted there."""
    prompt = words(6 * BLOCK, 1)
    assert hits_of(GEOMETRIES, "attention", tmp_path, prompt, prompt, prompt) == [0, 64, 64]
    assert hits_of(GEOMETRIES, "mixed", tmp_path, prompt, prompt, prompt) == [0, 0, 64]


def hits_of(
    geometries: dict[str, Geometry], name: str, folder: Path, *prompts: tuple[int, ...]
) -> list[int]:
    """What each of some prompts hits, one after the other in a roomy pool."""
    scene = Scene(simulation(geometries[name], STEPPED, folder, 2_000_000))
    found = []
    for index, prompt in enumerate(prompts):
        scene.send(f"r{index}", prompt)
        found.append(hits(scene.step())[f"r{index}"])
        scene.drain()
    return found
