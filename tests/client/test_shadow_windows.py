"""The shadow of models with windows, an encoder or scratch: what stays and what goes."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvquarry_client.scheduling import Allocation, Waiting
from kvquarry_client.worth import worth_keeping
from kvquarry_core.checkpoints import Checkpoints
from kvquarry_core.ids import NULL_BLOCK
from kvquarry_core.plan import GroupKind, GroupSpec
from kvquarry_core.retention import (
    Boundaries,
    Dense,
    EveryInterval,
    Landmarks,
    LastBoundary,
    Retention,
)
from tests.client.pools import ATTENTION, BLOCK, STATE, Engine, engine, prompt
from tests.core import reference
from tests.strategies import examples

WINDOW = GroupSpec(GroupKind.SLIDING_WINDOW, BLOCK, 64, 1, window_tokens=2 * BLOCK)
CHUNKED = GroupSpec(GroupKind.CHUNKED_LOCAL, BLOCK, 64, 1, window_tokens=2 * BLOCK)
ENCODER = GroupSpec(GroupKind.CROSS_ATTENTION, BLOCK, 64, 1)
SCRATCH = GroupSpec(GroupKind.SCRATCH, 7, 64, 1)


def held(quarry: Engine, request_id: str, group: int) -> list[int]:
    """The positions at which a request has a block."""
    request = quarry.shadow.find(request_id)
    assert request is not None
    blocks = request.block_ids()[group]
    return [position for position, block in enumerate(blocks) if block != NULL_BLOCK]


@pytest.mark.parametrize("spec", [WINDOW, CHUNKED], ids=["sliding window", "chunks"])
def test_rows_that_nobody_reads_go_back_while_the_request_runs(spec: GroupSpec) -> None:
    quarry = engine((ATTENTION, spec))
    assert quarry.admit("a", 8 * BLOCK)
    for num_tokens in range(8 * BLOCK + 1, 14 * BLOCK):
        quarry.shadow.begin_step()
        assert quarry.decode("a", num_tokens)
        processed = num_tokens - 1
        read = {*reference.positions_read(spec, processed), processed // BLOCK}
        assert held(quarry, "a", 1) == sorted(read)
        assert len(held(quarry, "a", 0)) == processed // BLOCK + 1
        [record] = quarry.ledger.pool.requests.values()
        assert len(record.held[1]) == len(read)
    quarry.shadow.free("a")
    assert quarry.used_bytes() == 0


def test_a_window_of_long_decoding_takes_no_more_of_the_pool() -> None:
    """The pool holds five blocks; a hundred are passed."""
    quarry = engine((WINDOW,), num_slabs=2)
    assert quarry.ledger.pool.plan.classes[0].num_usable_blocks == 5
    assert quarry.admit("a", BLOCK)
    for num_tokens in range(BLOCK + 1, 100 * BLOCK):
        quarry.shadow.begin_step()
        assert quarry.decode("a", num_tokens), num_tokens


def test_a_hit_leaves_nothing_before_its_window() -> None:
    quarry = engine((ATTENTION, WINDOW))
    assert quarry.admit("a", 10 * BLOCK + 1, "same")
    lookup = quarry.shadow.lookup(prompt("b", 10 * BLOCK + 1, "same"))
    assert lookup.hit_tokens == 10 * BLOCK
    assert [block != NULL_BLOCK for block in lookup.block_ids[1]] == [False] * 8 + [True] * 2
    assert quarry.admit("b", 10 * BLOCK + 1, "same")
    assert held(quarry, "b", 1) == [8, 9, 10]
    for name in "ab":
        quarry.shadow.free(name)
    assert quarry.used_bytes() == 0


def test_a_step_is_quiet_until_a_row_leaves_the_window() -> None:
    quarry = engine((ATTENTION, WINDOW))
    assert quarry.admit("a", 6 * BLOCK)
    quarry.shadow.begin_step()
    request = quarry.shadow.find("a")
    assert request is not None
    for num_tokens in range(6 * BLOCK + 1, 9 * BLOCK):
        exchanges, before = quarry.ledger.num_exchanges, request.block_ids()
        quiet = quarry.shadow.is_quiet(request, num_tokens, num_tokens - 1)
        unchanged = [list(column) for column in before]
        assert quarry.decode("a", num_tokens)
        moved = [list(column) for column in request.block_ids()] != unchanged
        assert not (quiet and (moved or quarry.ledger.num_exchanges > exchanges))


def test_an_encoder_and_scratch_are_granted_once() -> None:
    quarry = engine((ATTENTION, ENCODER, SCRATCH))
    waiting = Waiting("a", [], 3 * BLOCK, encoder_tokens=5 * BLOCK + 1)
    assert quarry.shadow.lookup(waiting).hit_tokens == 0
    allocation = Allocation(3 * BLOCK, 3 * BLOCK, 0)
    request = quarry.shadow.allocate_first(waiting, allocation, keep_free=False)
    assert request is not None
    assert [len(column) for column in request.block_ids()] == [3, 6, 1]
    assert quarry.ledger.num_exchanges == 1
    for num_tokens in range(3 * BLOCK + 1, 6 * BLOCK):
        quarry.shadow.begin_step()
        assert quarry.decode("a", num_tokens)
    assert [len(column) for column in request.block_ids()] == [6, 6, 1]
    quarry.shadow.commit("a", prompt("a", 5 * BLOCK).hashes, 5 * BLOCK, Landmarks())
    assert quarry.ledger.pool.store.cache.num_cached(quarry.ledger.pool.plan.class_of_group[0]) == 0
    quarry.shadow.free("a")
    assert quarry.used_bytes() == 0


def test_scratch_is_no_reason_not_to_hit() -> None:
    quarry = engine((ATTENTION, SCRATCH, STATE))
    assert quarry.admit("a", 40, "same")
    quarry.shadow.begin_step()
    assert quarry.shadow.lookup(prompt("b", 41, "same")).hit_tokens == 40
    request = quarry.shadow.find("a")
    assert request is not None
    assert request.cached_tokens == 40


def test_blocks_granted_ahead_are_those_that_grow() -> None:
    quarry = engine((ATTENTION, WINDOW, SCRATCH), num_slabs=400, ahead_tokens=8 * BLOCK)
    quarry.admit("a", 2 * BLOCK + 1)
    quarry.shadow.begin_step()
    asked = quarry.ledger.num_exchanges
    for num_tokens in range(2 * BLOCK + 2, 10 * BLOCK):
        quarry.shadow.begin_step()
        assert quarry.decode("a", num_tokens)
    assert quarry.ledger.num_exchanges <= asked + 2


@examples(300)
@given(
    window_tokens=st.integers(1, 40),
    retention=st.sampled_from(
        [Dense(), Boundaries(), LastBoundary(), *map(EveryInterval, (8, 12, 24))]
    ),
    is_draft=st.booleans(),
    landmarks=st.builds(Landmarks, *[st.lists(st.integers(0, 120), max_size=2).map(tuple)] * 2),
    cuts=st.lists(st.integers(0, 30), max_size=3),
)
def test_exactly_what_a_kept_length_reads_is_worth_a_hash(
    window_tokens: int,
    retention: Retention,
    is_draft: bool,  # noqa: FBT001
    landmarks: Landmarks,
    cuts: list[int],
) -> None:
    """Wherever the chunks end at which the question is asked."""
    kind = GroupKind.SLIDING_WINDOW
    spec = GroupSpec(kind, 4, 64, 1, window_tokens=window_tokens, is_draft=is_draft)
    checkpoints, aligned = Checkpoints(retention, 8), landmarks.aligned(8)
    expected = set()
    for num_tokens in range(8, 400, 8):
        if checkpoints.within(num_tokens, num_tokens, aligned):
            expected.update(reference.positions_read(spec, num_tokens))
    ends = sorted({0, *cuts, 30})
    found = [
        position
        for first, end in itertools.pairwise(ends)
        for position in worth_keeping(spec, range(first, end), checkpoints, aligned)
    ]
    assert found == sorted(position for position in expected if position < 30)
