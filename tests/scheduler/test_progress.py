"""What fits into an empty pool is admitted when nothing else runs, whatever the cache holds (C16).

With several sizes, a pool can be full of leftovers in the wrong places: the cached blocks of one
size, a few in every slab. They must give way.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from kvquarry_core.pins import DEFAULT_PIN_CAP
from kvquarry_vllm.capacity import RequestSize, memory_for_request
from kvquarry_vllm.grouping import group_specs
from tests.scheduler.cases import ATTENTION, EVEN, LOOPS, MIXED, PLAIN
from tests.scheduler.geometry import Geometry
from tests.scheduler.quarry import QuarryPools
from tests.scheduler.scenes import Scene, words
from tests.scheduler.simulation import STEPPED, Loop, Simulation

#: States smaller than attention blocks, four to a slab, and slabs of one attention block.
SMALL_STATES = Geometry(
    block_tokens=32, state_bytes=512, num_state_groups=3, retention_interval=None
)
LONGEST = 76
OUTPUT = 10


def scene_of(
    geometry: Geometry, folder: Path, loop: Loop = STEPPED, pin_cap: float = DEFAULT_PIN_CAP
) -> Scene:
    """A pool that start-up finds just large enough for one request of the longest length."""
    size = RequestSize(LONGEST + OUTPUT, in_flight_tokens=LONGEST + OUTPUT)
    memory_bytes = memory_for_request(group_specs(geometry.groups(None)), size)
    pools = QuarryPools(geometry, memory_bytes, pin_cap=pin_cap)
    return Scene(Simulation(pools, loop, PLAIN, folder))


def answer_all(scene: Scene, lengths: list[tuple[int, int]]) -> None:
    for number, (prompt_tokens, output_tokens) in enumerate(lengths):
        scene.finish(f"r{number}", words(prompt_tokens, seed=number), output_tokens)
    scene.drain()


def test_leftover_states_in_every_slab_give_way_to_attention(tmp_path: Path) -> None:
    """Found by a random search, cut down to what it takes."""
    scene = scene_of(SMALL_STATES, tmp_path)
    prompts = [(46, 10), (71, 3), (29, 4), (54, 10), (43, 10), (27, 9), (48, 10), (60, 6)]
    answer_all(scene, prompts)


@pytest.mark.parametrize("loop", LOOPS, ids=lambda loop: loop.name)
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    "geometry",
    [ATTENTION, SMALL_STATES, MIXED, EVEN],
    ids=["attention", "small-states", "mixed", "even"],
)
def test_one_request_after_the_other_is_admitted(
    geometry: Geometry, seed: int, loop: Loop, tmp_path: Path
) -> None:
    """With a step in flight a request holds one state more at a boundary."""
    rng = random.Random(seed)
    scene = scene_of(geometry, tmp_path, loop)
    answer_all(scene, [(rng.randint(1, LONGEST), rng.randint(1, OUTPUT)) for _ in range(60)])
