"""KV events tell routers what can be found, by group, and what no longer can."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from vllm.distributed.kv_events import AllBlocksCleared, BlockRemoved, BlockStored, KVCacheEvent
from vllm.v1.core.kv_cache_utils import maybe_convert_block_hash
from vllm.v1.request import Request

from kvquarry_vllm.events import EventLog
from tests.scheduler.cases import EAGLE, MIXED, PLAIN, WINDOWS_AND_STATES, with_draft_layers
from tests.scheduler.geometry import Geometry
from tests.scheduler.quarry import QuarryPools
from tests.scheduler.scenes import Scene, words
from tests.scheduler.simulation import STEPPED, Simulation

BLOCK = MIXED.block_tokens


class Router:
    """What a subscriber believes: the hashes each group can be asked for."""

    def __init__(self, num_groups: int) -> None:
        self.found: list[set[object]] = [set() for _ in range(num_groups)]

    def hear(self, events: list[KVCacheEvent]) -> None:
        for event in events:
            match event:
                case AllBlocksCleared():
                    self.found = [set() for _ in self.found]
                case BlockStored():
                    assert event.group_idx is not None
                    self.found[event.group_idx].update(event.block_hashes)
                case BlockRemoved():
                    assert event.group_idx is not None
                    self.found[event.group_idx].difference_update(event.block_hashes)


def scene_of(geometry: Geometry, folder: Path) -> Scene:
    return Scene(Simulation(QuarryPools(geometry, 120_000), STEPPED, PLAIN, folder))


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return scene_of(MIXED, tmp_path)


def listening(scene: Scene) -> Router:
    """Events on, as `--kv-events-config` does."""
    manager = scene.simulation.manager
    manager._events = EventLog(manager.shadow.plan, manager.kv_cache_config)
    return Router(len(manager.shadow.plan.groups))


def report_in_full(scene: Scene) -> None:
    """Requests that ask for it are told of what they hit, too."""
    manager = scene.simulation.manager
    look_up = manager.get_computed_blocks

    def reporting(request: Any) -> Any:
        request.kv_cache_report_mode = "full"
        return look_up(request)

    manager.get_computed_blocks = reporting


def findable(scene: Scene, requests: Iterable[Request] = ()) -> list[set[object]]:
    """What the pool itself can find, by group; a draft's rows by the hashes at their own ends."""
    pool = scene.simulation.manager.shadow.ledger.pool
    before = {
        name: own for request in requests for own, name in itertools.pairwise(request.block_hashes)
    }
    found: list[set[object]] = [set() for _ in pool.plan.groups]
    for kind, members in enumerate(pool.plan.kinds):
        is_draft = pool.plan.spec_of_kind(kind).is_draft
        for commitment in pool.store.index.commitments(kind):
            name = commitment.block_hash
            for group in members:
                found[group].add(maybe_convert_block_hash(before[name] if is_draft else name))
    return found


@pytest.mark.parametrize("mode", ["incremental", "full"])
@pytest.mark.parametrize(
    "geometry", [MIXED, WINDOWS_AND_STATES], ids=["attention and states", "windows as well"]
)
def test_a_router_that_hears_all_events_believes_what_is_true(
    geometry: Geometry, mode: str, tmp_path: Path
) -> None:
    """With prefixes shared, content evicted, and a reset at the end."""
    scene = scene_of(geometry, tmp_path)
    if mode == "full":
        report_in_full(scene)
    router, manager = listening(scene), scene.simulation.manager
    taken: list[KVCacheEvent] = []
    take = manager.take_events
    manager.take_events = lambda: taken.extend(take()) or []
    shared = words(4 * BLOCK, seed=0)
    for number in range(12):
        scene.finish(f"r{number}", shared + words(3 * BLOCK + number, seed=number))
    manager.new_step_starts()
    taken += take()
    router.hear(taken)
    assert router.found == findable(scene)
    assert any(isinstance(event, BlockRemoved) for event in taken), "nothing was evicted"
    assert manager.reset_prefix_cache()
    router.hear(take())
    assert router.found == findable(scene) == [set() for _ in router.found]


def test_a_router_hears_of_a_drafts_blocks_by_their_own_hashes(tmp_path: Path) -> None:
    """Though the pool finds them under longer names, and each of two that part has one."""
    pools = QuarryPools(with_draft_layers(MIXED), 220_000)
    scene = Scene(Simulation(pools, STEPPED, EAGLE, tmp_path))
    router, manager = listening(scene), scene.simulation.manager
    heard: list[KVCacheEvent] = []
    take = manager.take_events
    manager.take_events = lambda: heard.extend(take()) or []
    shared = words(4 * BLOCK, seed=0)
    requests = []
    for number in range(16):
        prompt = shared + words(3 * BLOCK + number, seed=number)
        requests.append(scene.send(f"r{number}", prompt, max_tokens=20))
        if number % 2:  # two at a time, so that both compute what they have in common
            scene.drain()
    manager.new_step_starts()
    heard += take()
    router.hear(heard)
    assert router.found == findable(scene, requests)
    assert any(isinstance(event, BlockRemoved) for event in heard), "nothing was evicted"
    assert manager.reset_prefix_cache()
    router.hear(take())
    assert router.found == findable(scene) == [set() for _ in router.found]


def test_a_stored_block_names_its_parent_and_its_tokens(scene: Scene) -> None:
    listening(scene)
    prompt = words(2 * BLOCK + 1, seed=1)
    request = scene.send("r", prompt, max_tokens=8)
    manager = scene.simulation.manager
    taken: list[KVCacheEvent] = []
    take = manager.take_events
    manager.take_events = lambda: taken.extend(take()) or []
    while not request.num_output_tokens:
        scene.step()
    attention = len(manager.shadow.plan.groups) - 1
    stored = [e for e in taken if isinstance(e, BlockStored) and e.group_idx == attention]
    tokens = [token for event in stored for token in event.token_ids]
    assert tokens == list(prompt[: 2 * BLOCK])
    assert stored[0].parent_block_hash is None
    hashes = [one for event in stored for one in event.block_hashes]
    assert hashes == [maybe_convert_block_hash(one) for one in request.block_hashes[:2]]
    assert {event.block_size for event in stored} == {BLOCK}
    assert {event.kv_cache_spec_kind for event in stored} == {"full_attention"}
