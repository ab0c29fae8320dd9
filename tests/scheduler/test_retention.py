"""Which checkpoints a pool's retention leaves behind under vLLM's own scheduler."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from kvquarry_core.ids import KindId
from kvquarry_core.plan import GroupKind
from kvquarry_core.policies import NO_CHOICE_BUT_STAY
from tests.scheduler.cases import BUSY, DRAFTING, LOOPS, MIXED, PLAIN, SLIDING, with_drafts
from tests.scheduler.geometry import Geometry
from tests.scheduler.quarry import QuarryPools, core_pool
from tests.scheduler.scenes import Scene, words
from tests.scheduler.settings import SchedulerSettings
from tests.scheduler.simulation import STEPPED, Loop, Simulation
from tests.scheduler.workload import make_script

BLOCK = MIXED.block_tokens
ROOMY_BYTES = 4_000_000
#: Of 1,000 tokens and 40 more, blocks of 16, at most 256 tokens a step.
PROMPT = words(1000, seed=1)
LONG = replace(PLAIN, max_model_len=2048)
#: Where stock vLLM ends chunks: when a step's tokens are used up, and before the prompt's tail.
CHUNK_ENDS = [256, 512, 768, 992]


def retaining(
    name: str, geometry: Geometry = MIXED, memory_bytes: int = ROOMY_BYTES
) -> QuarryPools:
    policies = replace(NO_CHOICE_BUT_STAY, retention=name)
    return QuarryPools(geometry, memory_bytes, policies=policies)


def scene(pools: QuarryPools, loop: Loop, folder: Path) -> Scene:
    return Scene(Simulation(pools, loop, LONG, folder))


def checkpoints(scene: Scene, text: tuple[int, ...]) -> list[int]:
    """How many tokens of a text there are states after, as whoever sends it again would find."""
    request = scene.send("again", (*text, 1))
    pool = core_pool(scene.scheduler)
    [states] = [
        KindId(kind)
        for kind in range(len(pool.plan.kinds))
        if pool.plan.spec_of_kind(KindId(kind)).kind is GroupKind.RECURRENT_STATE
    ]
    kept = {one.block_hash for one in pool.store.index.commitments(states)}
    scene.abort("again")
    hashes = enumerate(request.block_hashes, 1)
    return [number * BLOCK for number, block_hash in hashes if block_hash in kept]


@pytest.mark.parametrize("loop", LOOPS, ids=lambda loop: loop.name)
@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("dense", [*CHUNK_ENDS, 1008, 1024]),
        ("boundaries", [992]),
        ("last", [992]),
        ("every-128", [*range(128, 993, 128), 992, 1024]),
        ("every-100", [400, 800, 992]),
    ],
)
def test_a_prompt_and_its_answer_leave_what_the_rule_says(
    name: str, expected: list[int], loop: Loop, tmp_path: Path
) -> None:
    ours = scene(retaining(name), loop, tmp_path)
    ours.finish("first", PROMPT, max_tokens=40)
    answer = tuple(ours.simulation.engine.state.said["first"])
    assert checkpoints(ours, PROMPT + answer) == expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("boundaries", [592, 784]),
        ("last", [784]),
        ("every-128", [128, 256, 384, 512, 592, 640, 768, 784]),
    ],
)
def test_a_junction_leaves_one_where_the_rule_wants_it(
    name: str, expected: list[int], tmp_path: Path
) -> None:
    ours = scene(retaining(name), STEPPED, tmp_path)
    ours.finish("first", PROMPT)
    other = PROMPT[:600] + words(200, seed=2)
    ours.finish("other", other)
    assert checkpoints(ours, other) == expected


@pytest.mark.parametrize("loop", LOOPS, ids=lambda loop: loop.name)
def test_an_interval_holds_where_requests_share_a_step(loop: Loop, tmp_path: Path) -> None:
    """Others use up a step's tokens anywhere, so that chunks end anywhere by themselves."""
    ours = scene(retaining("every-128"), loop, tmp_path)
    texts = [words(length, seed=length) for length in (1000, 900, 700)]
    for text in texts:
        ours.send(f"{len(text)}", text)
    ours.drain()
    for text in texts:
        last = (len(text) - 1) // BLOCK * BLOCK
        assert checkpoints(ours, text) == sorted({*range(128, last + 1, 128), last})


def test_the_engines_own_interval_keeps_only_what_chunks_happen_to_leave(tmp_path: Path) -> None:
    """As in stock vLLM: were this equal, the tests above would prove nothing."""
    ours = scene(retaining("engine", replace(MIXED, retention_interval=128)), STEPPED, tmp_path)
    texts = [words(length, seed=length) for length in (1000, 900, 700)]
    for text in texts:
        ours.send(f"{len(text)}", text)
    ours.drain()
    kept = [set(checkpoints(ours, text)) for text in texts]
    assert any(not kept_of.issuperset(range(128, 600, 128)) for kept_of in kept)


def test_a_choice_wins_over_the_engines_own_setting(tmp_path: Path) -> None:
    ours = scene(retaining("last", replace(MIXED, retention_interval=None)), STEPPED, tmp_path)
    ours.finish("first", PROMPT)
    assert checkpoints(ours, PROMPT) == [992]


@pytest.mark.parametrize(("name", "hit_tokens"), [("every-128", 384), ("last", 0), ("dense", 480)])
def test_windows_are_kept_by_the_same_rule(name: str, hit_tokens: int, tmp_path: Path) -> None:
    """Attention is there after every token, wherever chunks end."""
    ours = scene(retaining(name, SLIDING), STEPPED, tmp_path)
    ours.finish("first", PROMPT)
    ours.send("other", PROMPT[:490] + words(200, seed=3))
    assert dict(ours.step().hits) == {"other": hit_tokens}


@pytest.mark.usefixtures("no_reserve")
@pytest.mark.parametrize("loop", LOOPS, ids=lambda loop: loop.name)
@pytest.mark.parametrize(
    ("geometry", "settings"),
    [
        pytest.param(MIXED, PLAIN, id="plain"),
        pytest.param(with_drafts(MIXED), DRAFTING, id="drafts"),
    ],
)
def test_chunks_that_end_early_keep_the_laws(
    geometry: Geometry, settings: SchedulerSettings, loop: Loop, tmp_path: Path
) -> None:
    """In little room, with preemptions: contents and answers are checked in every step."""
    pools = retaining("every-48", geometry, 320_000)
    simulation = Simulation(pools, loop, settings, tmp_path)
    simulation.run(make_script(5, [BUSY, BUSY], turns_per_phase=60))
    assert simulation.trace.hit_tokens > 0
    assert simulation.trace.num_preemptions > 0
