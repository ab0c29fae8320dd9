"""Every exit between lookup and allocation leaks nothing (C19, sglang 16067).

The scheduler looks a waiting request up, and then has many reasons not to schedule it after all.
What a lookup touched and set aside is back when the next step starts, or one step later where
memory allows: this is checked at every start of every simulation
(``Simulation.check_nothing_strays``); here each exit is taken in turn.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from vllm.multimodal.inputs import MultiModalFeatureSpec, PlaceholderRange

from tests.scheduler.cases import ATTENTION, DRAFTING, LOOPS, MIXED, NUM_DRAFTS, PLAIN
from tests.scheduler.geometry import Geometry
from tests.scheduler.quarry import QuarryPools
from tests.scheduler.scenes import Scene, hits, scheduled, words
from tests.scheduler.settings import SchedulerSettings
from tests.scheduler.simulation import STEPPED, Loop, PoolFactory, Simulation
from tests.scheduler.stock import StockPools
from tests.scheduler.violation import Violation

SHARED = words(48, seed=1)
SMALL = replace(PLAIN, max_num_seqs=2, max_num_batched_tokens=64)


def nothing(scene: Scene) -> None:
    """Nothing needs to be done to cause the exit, or to lift it."""


def abort_runner(scene: Scene) -> None:
    scene.abort("runner")


def forbid_chunks(scene: Scene) -> None:
    scene.scheduler.scheduler_config.enable_chunked_prefill = False


def reserve_lookahead(scene: Scene) -> None:
    scene.scheduler.num_prefill_lookahead = 4


def throttle_prefills(scene: Scene) -> None:
    schedule = scene.scheduler.schedule
    scene.scheduler.schedule = lambda: schedule(throttle_prefills=True)


def stop_throttling(scene: Scene) -> None:
    del scene.scheduler.schedule


def hold_encoder_transfer(scene: Scene) -> None:
    scene.scheduler._ec_transfer_pending = lambda *_: True


def end_encoder_transfer(scene: Scene) -> None:
    del scene.scheduler._ec_transfer_pending


def attach_picture(scene: Scene) -> None:
    """The encoder has no budget at all; the picture begins where the hit ends."""
    place = PlaceholderRange(offset=len(SHARED), length=4)
    feature = MultiModalFeatureSpec(
        data=None, modality="image", identifier="picture", mm_position=place
    )
    scene.scheduler.requests["victim"].mm_features.append(feature)


def detach_picture(scene: Scene) -> None:
    scene.scheduler.requests["victim"].mm_features.clear()


@dataclass(frozen=True)
class Exit:
    """A reason not to schedule a request that was looked up.

    Attributes:
        cause: Done before the step in which the request is looked up.
        lift: Done after it; then the request is scheduled.
        suffix_tokens: The victim's tokens beyond the shared ones, which are cached.
        reaches_allocation: Whether blocks are asked for, and refused.
    """

    name: str
    cause: Callable[[Scene], None] = nothing
    lift: Callable[[Scene], None] = abort_runner
    settings: SchedulerSettings = SMALL
    geometries: tuple[Geometry, ...] = (ATTENTION, MIXED)
    suffix_tokens: int = 20
    runner_tokens: int = 20
    reaches_allocation: bool = False


EXITS = [
    Exit("prefills-throttled", throttle_prefills, stop_throttling),
    Exit("encoder-transfer-pending", hold_encoder_transfer, end_encoder_transfer),
    Exit("encoder-budget-exhausted", attach_picture, detach_picture),
    Exit("chunks-forbidden", forbid_chunks, suffix_tokens=64, geometries=(ATTENTION,)),
    Exit(
        "chunk-reaches-no-boundary",
        settings=replace(SMALL, max_num_batched_tokens=16),
        geometries=(MIXED,),
    ),
    Exit(
        "chunk-ends-in-lookahead",
        reserve_lookahead,
        settings=replace(SMALL, max_num_batched_tokens=3),
        suffix_tokens=3,
        geometries=(ATTENTION,),
    ),
    Exit(
        "no-room-for-padding-drafts",
        settings=replace(DRAFTING, max_num_seqs=2, max_num_batched_tokens=2 * NUM_DRAFTS + 1),
        suffix_tokens=1,
        geometries=(ATTENTION,),
    ),
    Exit("prompt-does-not-fit", runner_tokens=400, suffix_tokens=700, reaches_allocation=True),
    Exit(
        "watermark",
        settings=replace(SMALL, watermark=0.95),
        reaches_allocation=True,
    ),
]


def pools_of(geometry: Geometry) -> list[PoolFactory]:
    num_blocks = 56
    if geometry is ATTENTION:
        memory_bytes = 2 * num_blocks * geometry.page_bytes
        return [StockPools(geometry, num_blocks), QuarryPools(geometry, memory_bytes)]
    return [StockPools(geometry, 64), QuarryPools(geometry, 200_000)]


def parameters() -> list[object]:
    return [
        pytest.param(exit_, pools, id=f"{exit_.name}-{type(pools).__name__}-{index}")
        for exit_ in EXITS
        for index, geometry in enumerate(exit_.geometries)
        for pools in pools_of(geometry)
    ]


def arrange(exit_: Exit, pools: PoolFactory, loop: Loop, folder: Path) -> Scene:
    """The shared text is cached, a runner decodes, and the victim has just been looked up."""
    scene = Scene(Simulation(pools, loop, exit_.settings, folder))
    scene.finish("donor", SHARED + words(4, seed=2))
    scene.start("runner", words(exit_.runner_tokens, seed=3))
    scene.send("victim", SHARED + words(exit_.suffix_tokens, seed=4))
    exit_.cause(scene)
    step = scene.step()
    assert "victim" in scene.calls.looked_up, "the exit is not between lookup and allocation"
    assert ("victim" in scene.calls.allocated) == exit_.reaches_allocation
    assert "victim" not in scheduled(step)
    assert "runner" in scheduled(step)
    return scene


@pytest.mark.parametrize(("exit_", "pools"), parameters())
def test_a_request_that_left_and_is_aborted_leaves_nothing(
    exit_: Exit, pools: PoolFactory, tmp_path: Path
) -> None:
    scene = arrange(exit_, pools, STEPPED, tmp_path)
    scene.step()
    scene.abort("victim", "runner")
    scene.drain()


@pytest.mark.parametrize("loop", LOOPS, ids=lambda loop: loop.name)
@pytest.mark.parametrize(("exit_", "pools"), parameters())
def test_a_request_that_left_still_hits_when_it_may_go_on(
    exit_: Exit, pools: PoolFactory, loop: Loop, tmp_path: Path
) -> None:
    scene = arrange(exit_, pools, loop, tmp_path)
    scene.step()
    exit_.lift(scene)
    found: dict[str, int] = {}
    for _ in range(6):
        found |= hits(scene.step())
    assert found["victim"] == len(SHARED)
    scene.abort("runner")
    scene.drain()


@pytest.mark.parametrize("pools", pools_of(MIXED), ids=lambda pools: type(pools).__name__)
def test_a_request_that_waits_for_a_seat_holds_nothing(pools: PoolFactory, tmp_path: Path) -> None:
    """Looked up and left out in one step; in the next there is no seat, so nobody looks it up."""
    scene = Scene(Simulation(pools, STEPPED, SMALL, tmp_path))
    scene.finish("donor", SHARED + words(4, seed=2))
    scene.start("runner", words(20, seed=3))
    scene.send("victim", SHARED + words(20, seed=4))
    hold_encoder_transfer(scene)
    assert "victim" not in scheduled(scene.step())
    end_encoder_transfer(scene)
    scene.scheduler.max_num_active_reqs = 1
    for _ in range(3):
        scene.step()
        assert scene.calls.looked_up == []
        scene.simulation.manager.new_step_starts()
    scene.abort("runner")
    assert hits(scene.step()) == {"victim": len(SHARED)}
    scene.drain()


def test_a_lookup_that_is_not_given_back_is_found(tmp_path: Path) -> None:
    """Negative control: the audit at every start would see what an exit leaves behind."""
    exit_ = EXITS[0]
    scene = arrange(exit_, pools_of(MIXED)[1], STEPPED, tmp_path)
    ledger = scene.simulation.manager.shadow.ledger
    ledger.free = lambda handle: None
    ledger.compare_books = lambda digest: None
    scene.step()
    with pytest.raises(Violation, match="blocks are held"):
        scene.step()
