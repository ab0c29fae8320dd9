"""Relocation: blocks move, content stays, and what fits in all fits in one piece."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from kvquarry_core.ids import ClassId, GroupId, Handle
from kvquarry_core.integrity import check_integrity
from kvquarry_core.messages import Admission, Grant, Refusal, RefusalCause
from kvquarry_core.plan import Plan, make_plan
from kvquarry_core.pool import Pool
from kvquarry_core.relocation import EvacuateCheapest, Relocation
from tests.core.prefill import prefill
from tests.core.random_walk import RandomWalk
from tests.core.relocating_engine import RelocatingEngine
from tests.core.small_pools import attention, request, states, take_all, two_classes
from tests.core.walk_pools import WALK_POOLS

ATTENTION_GROUP = GroupId(0)
#: Where some slab holds several blocks of one size that another size could need.
SEVERAL_SIZES = {
    name: plan
    for name, plan in WALK_POOLS.items()
    if len(plan.classes) > 1 and max(c.blocks_per_slab for c in plan.classes) > 1
}
NUM_OPERATIONS = 4_000


@pytest.mark.parametrize("plan", SEVERAL_SIZES.values(), ids=SEVERAL_SIZES)
def test_content_and_every_law_survive_moves(plan: Plan) -> None:
    """Each block is read after it moved: by its holder, and through its hash."""
    engine = RelocatingEngine(plan)
    walk = RandomWalk(engine, seed=4)
    walk.run(NUM_OPERATIONS, checked_every=25)
    assert engine.num_moves > 4
    assert sum(engine.pool.store.num_moves) == engine.num_moves
    walk.end()


def half_dropped(members: Sequence[int | None]) -> RelocatingEngine:
    """Requests with a committed row of two blocks each, one of which most of them have dropped.

    Four slabs of three blocks, all of them in use or cached.
    """
    engine = RelocatingEngine(make_plan([*[attention(16)] * 2, states(48)], 5 * 48))
    for handle, text in enumerate("abcdef"):
        engine.admit(replace(request(handle, text), states_are_leased=True), text)
        prefill(engine, Handle(handle))
    for handle, member in enumerate(members):
        if member is not None:
            engine.drop(Handle(handle), GroupId(member), 0)
    engine.begin_step()
    engine.check()
    return engine


@pytest.mark.parametrize(
    "members",
    [(None, None, 0, None, 0, 1), (None, 1, None, None, 0, 0), (0, None, None, None, 0, 0)],
)
def test_a_row_is_evicted_after_one_of_its_blocks_moved(members: Sequence[int | None]) -> None:
    """A slab is cleared, its blocks go to holes, and the last hole is their own row's end."""
    engine = half_dropped(members)
    assert isinstance(engine.lease([0, 0, 1]), Grant)
    assert engine.num_moves
    assert engine.lost
    engine.check()


def scattered(relocation: Relocation | None) -> Pool:
    """Five slabs of three blocks, one block of each in use; nothing is left beside them."""
    pool = Pool(two_classes(num_slabs=5), relocation=relocation)
    for handle in map(Handle, range(5)):
        answer = pool.admit(replace(request(handle, "abc"), states_are_leased=True))
        assert isinstance(answer, Admission)
        take_all(pool, handle)
    for handle, record in pool.requests.items():
        for block in list(record.held[ATTENTION_GROUP])[1:]:
            pool.drop(handle, ATTENTION_GROUP, block)
    pool.begin_step()
    check_integrity(pool)
    assert pool.store.slabs.num_unassigned == 0
    return pool


def test_without_relocation_a_large_block_is_refused_beside_holes() -> None:
    pool = scattered(None)
    answer = pool.lease_blocks([0, 1])
    assert isinstance(answer, Refusal)
    assert answer.cause is RefusalCause.SHORTAGE


def test_the_slab_that_takes_the_fewest_bytes_is_cleared() -> None:
    pool = scattered(EvacuateCheapest(most_bytes=16))
    before = [list(record.held[0]) for record in pool.requests.values()]
    answer = pool.lease_blocks([0, 1])
    assert isinstance(answer, Grant)
    [move] = answer.moves
    assert move.size_class == 0
    after = [list(record.held[0]) for record in pool.requests.values()]
    assert [[move.target if b == move.source else b for b in held] for held in before] == after
    assert pool.store.slabs.slab_of(ClassId(1), answer.blocks[1][0]) == move.source // 3
    check_integrity(pool)


def test_more_bytes_than_allowed_are_not_moved() -> None:
    pool = scattered(EvacuateCheapest(most_bytes=15))
    assert isinstance(pool.lease_blocks([0, 1]), Refusal)
    pool = scattered(EvacuateCheapest(most_bytes=31))
    assert isinstance(pool.lease_blocks([0, 2]), Refusal)
    check_integrity(pool)


def test_what_was_handed_out_in_this_step_stays() -> None:
    """Whoever got a block has its id written down for the worker already."""
    pool = scattered(EvacuateCheapest(most_bytes=1 << 20))
    for handle in range(5):
        assert isinstance(pool.grow(Handle(handle), [1, 0]), Grant)
    assert isinstance(pool.lease_blocks([0, 1]), Refusal)
    pool.begin_step()
    answer = pool.lease_blocks([0, 1])
    assert isinstance(answer, Grant)
    assert len(answer.moves) == 2


def test_an_admission_moves_blocks_for_all_of_a_request_that_must_fit() -> None:
    pool = scattered(EvacuateCheapest(most_bytes=1 << 20))
    answer = pool.admit(replace(request(9, "abcdef"), must_fit_tokens=6))
    assert isinstance(answer, Admission)
    assert answer.grant.moves
    check_integrity(pool)
