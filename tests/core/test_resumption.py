"""A checkpoint that the next turn resumes at is as young as the request it belongs to."""

from kvquarry_core.ids import ClassId, GroupId, Handle
from kvquarry_core.integrity import check_integrity
from kvquarry_core.plan import Plan, make_plan
from kvquarry_core.pool import Pool
from tests.core.small_pools import (
    STATES,
    attention,
    cache,
    grow,
    refused,
    run,
    states,
    two_classes,
)

STATE_GROUP = GroupId(1)


def leave_checkpoint(pool: Pool, handle: int, prompt: str) -> None:
    """Run a prompt, and go on from its checkpoint: that is not in use any more."""
    run(pool, handle, prompt)
    for state in list(pool.requests[Handle(handle)].held[STATE_GROUP]):
        pool.drop(Handle(handle), STATE_GROUP, state)
    pool.begin_step()


def checkpoints(pool: Pool) -> list[bytes]:
    """What the cached states sum up, the next victim first."""
    size_class = pool.plan.class_of_kind(STATES)
    found = [
        pool.store.contents.commitment(size_class, block)
        for block in pool.store.cache.by_age(size_class)
    ]
    return [one.block_hash for one in found if one is not None]


def pool_of(plan: Plan) -> Pool:
    """A running request that left a checkpoint, and a finished one that left another."""
    pool = Pool(plan)
    leave_checkpoint(pool, 1, "ab")
    cache(pool, 2, "xy")
    assert checkpoints(pool) == [b"ab", b"xy"]
    return pool


def test_a_request_that_goes_on_keeps_its_checkpoint_young() -> None:
    pool = pool_of(two_classes(num_slabs=12))
    grow(pool, 1, [1, 0])
    assert checkpoints(pool) == [b"xy", b"ab"]
    check_integrity(pool)


def test_a_request_that_ends_leaves_its_checkpoint_as_young_as_its_attention() -> None:
    pool = pool_of(two_classes(num_slabs=12))
    pool.free(Handle(1))
    assert checkpoints(pool) == [b"xy", b"ab"]
    slabs = [int(slab) for slab in pool.store.cache.idle_slabs(ClassId(1))]
    assert slabs == [int(block) for block in pool.store.cache.by_age(ClassId(1))]
    check_integrity(pool)


def test_a_checkpoint_that_was_hit_is_kept_young_until_there_is_a_deeper_one() -> None:
    pool = Pool(two_classes(num_slabs=12))
    cache(pool, 1, "ab")
    leave_checkpoint(pool, 2, "abcd")
    assert checkpoints(pool) == [b"ab", b"abcd"]
    cache(pool, 3, "xy")
    pool.free(Handle(2))
    assert checkpoints(pool) == [b"ab", b"xy", b"abcd"]


def test_a_refused_growth_renews_nothing() -> None:
    pool = pool_of(two_classes(num_slabs=12))
    refused(pool.grow(Handle(1), [1000, 0]))
    assert checkpoints(pool) == [b"ab", b"xy"]


def test_a_checkpoint_that_is_gone_is_not_missed() -> None:
    pool = pool_of(two_classes(num_slabs=12))
    oldest = next(pool.store.cache.by_age(ClassId(1)))
    pool.forget(STATE_GROUP, [oldest])
    assert checkpoints(pool) == [b"xy"]
    grow(pool, 1, [1, 0])
    pool.free(Handle(1))
    assert checkpoints(pool) == [b"xy"]
    check_integrity(pool)


def test_where_all_blocks_have_one_size_the_order_is_stock_vllms() -> None:
    pool = pool_of(make_plan([attention(16), states(16)], 40 * 16))
    grow(pool, 1, [1, 0])
    pool.free(Handle(1))
    assert checkpoints(pool) == [b"ab", b"xy"]


def test_attention_does_not_outlive_the_checkpoint_it_needs() -> None:
    """While a request generates, others come and go; its next turn still hits."""
    pool = Pool(two_classes(num_slabs=12))
    leave_checkpoint(pool, 1, "abcdef")
    for handle in range(2, 40):
        cache(pool, handle, chr(1000 + handle) * 6)
        grow(pool, 1, [0, 0])
    pool.free(Handle(1))
    assert run(pool, 99, "abcdefg").hit_tokens == 6
