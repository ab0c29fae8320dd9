"""Blocks that a request gives up, and content that is forgotten."""

import pytest

from kvquarry_core.ids import BlockHash, BlockId, ClassId, GroupId, Handle, KindId
from kvquarry_core.integrity import check_integrity
from kvquarry_core.pool import Pool
from kvquarry_core.prefix_index import Rows
from kvquarry_core.usage import usage_of
from tests.core.small_pools import (
    ATTENTION,
    STATES,
    admit,
    cache,
    commit_all,
    grow,
    hashes,
    hybrid,
    one_class,
    run,
    take_all,
)

SMALL, LARGE = ClassId(0), ClassId(1)
G0, G1 = GroupId(0), GroupId(1)
R1, R2 = Handle(1), Handle(2)


class TestDropAndFree:
    def test_a_dropped_block_without_a_hash_is_free_at_once(self) -> None:
        pool = hybrid()
        run(pool, R1, "abc")
        [block] = grow(pool, R1, [0, 1, 0]).blocks[1]
        pool.take(R1, G1, 1)
        before = usage_of(pool).unassigned_slabs
        pool.drop(R1, G1, block)
        assert usage_of(pool).unassigned_slabs == before + 1
        assert block not in pool.requests[R1].held[1]

    def test_a_dropped_checkpoint_stays_cached(self) -> None:
        pool = hybrid()
        run(pool, R1, "abc")
        for group in (1, 2):
            pool.drop(R1, GroupId(group), pool.requests[R1].held[group][0])
        pool.begin_step()
        assert pool.store.cache.num_cached(LARGE) == 2
        assert admit(pool, R2, "abcd").hit_tokens == 3

    def test_a_shared_block_outlives_its_first_owner(self) -> None:
        pool = hybrid()
        run(pool, R1, "abc")
        pool.begin_step()
        shared = admit(pool, R2, "abcd").hit_blocks[0]
        pool.free(R1)
        assert [pool.store.num_references(SMALL, block) for block in shared] == [1, 1, 1]

    @pytest.mark.parametrize("spent", [0, 1])
    def test_free_leaves_nothing(self, spent: int) -> None:
        """C19: whatever had been spent or not when the request went."""
        pool = hybrid()
        before = usage_of(pool)
        admit(pool, R1, "abcde")
        for group in range(3):
            pool.take(R1, GroupId(group), spent)
        grow(pool, R1, [2, 1, 0])
        pool.free(R1)
        assert usage_of(pool) == before
        assert not pool.requests
        check_integrity(pool)

    def test_free_leaves_only_what_can_be_found(self) -> None:
        pool = hybrid()
        cache(pool, R1, "abcde")
        usage = usage_of(pool)
        assert [size_class.cached for size_class in usage.classes] == [5, 2]
        assert usage.used_bytes == 0
        assert admit(pool, R2, "abcdef").hit_tokens == 5


class TestForgetAndReset:
    def test_forgotten_blocks_are_not_found(self) -> None:
        pool = Pool(one_class(num_blocks=20))
        cache(pool, R1, "abcde")
        third = pool.store.index.find(ATTENTION, hashes("abc")[-1])
        assert third is not None
        pool.forget(G0, [third, third])
        assert admit(pool, R2, "abcdef").hit_tokens == 2

    def test_forgetting_one_block_forgets_its_row(self) -> None:
        pool = hybrid()
        cache(pool, R1, "abc")
        [found] = pool.store.index.commitments(STATES)
        pool.forget(GroupId(2), [found.row[1]])
        assert pool.store.cache.num_cached(LARGE) == 0
        assert pool.store.index.commitments(STATES) == []

    def test_a_forgotten_block_in_use_stays_in_use(self) -> None:
        pool = Pool(one_class(num_blocks=20))
        run(pool, R1, "abc")
        pool.forget(G0, pool.requests[R1].held[0])
        assert len(pool.requests[R1].held[0]) == 3
        assert admit(pool, R2, "abcd").hit_tokens == 0
        check_integrity(pool)

    def test_forgetting_blocks_without_a_hash_changes_nothing(self) -> None:
        pool = Pool(one_class(num_blocks=20))
        granted = admit(pool, R1, "abc").grant.blocks[0]
        before = usage_of(pool)
        pool.forget(G0, [*granted, BlockId(19)])
        assert usage_of(pool) == before
        check_integrity(pool)

    def test_reset_is_refused_while_blocks_are_in_use(self) -> None:
        pool = hybrid()
        cache(pool, R1, "abc")
        admit(pool, R2, "abcd")
        assert not pool.reset_cache()
        assert admit(pool, 3, "abcx").hit_tokens == 3

    def test_reset_forgets_everything_twins_included(self) -> None:
        pool = hybrid()
        for handle in (R1, R2):
            admit(pool, handle, "abc")
            take_all(pool, handle)
        for handle in (R1, R2):
            commit_all(pool, handle, "abc")
        for handle in (R1, R2):
            pool.free(handle)
        assert pool.reset_cache()
        assert [pool.store.index.commitments(KindId(kind)) for kind in (0, 1)] == [[], []]
        assert pool.store.slabs.num_unassigned == 20
        assert admit(pool, 3, "abcd").hit_tokens == 0
        check_integrity(pool)


class Audience:
    """Keeps what a pool tells its observer."""

    def __init__(self) -> None:
        self.heard: list[BlockHash] = []

    def forgotten(self, rows: Rows) -> None:
        """Note the hashes."""
        self.heard += rows.hashes


def test_the_observer_hears_once_of_every_row_that_lost_its_hash() -> None:
    audience = Audience()
    pool = Pool(one_class(num_blocks=4), observer=audience)
    cache(pool, R1, "abcd")
    assert audience.heard == []
    admit(pool, R2, "xy")
    assert audience.heard == list(reversed(hashes("abcd")[2:]))
    pool.free(R2)
    pool.reset_cache()
    assert sorted(audience.heard) == sorted(hashes("abcd"))


def test_usage_adds_up_at_every_stage() -> None:
    """Free, active, granted, cached and null blocks are all blocks of the carved slabs."""
    pool = hybrid()
    stages = [usage_of(pool)]
    admit(pool, R1, "abcde")
    stages.append(usage_of(pool))
    take_all(pool, R1)
    stages.append(usage_of(pool))
    commit_all(pool, R1, "abcde")
    pool.free(R1)
    stages.append(usage_of(pool))
    small, large = zip(*(usage.classes for usage in stages), strict=True)
    assert [usage.granted for usage in small] == [0, 5, 0, 0]
    assert [usage.granted for usage in large] == [0, 2, 0, 0]
    assert [usage.active for usage in small] == [0, 0, 5, 0]
    assert [usage.active for usage in large] == [0, 0, 2, 0]
    assert {usage.null for usage in small} == {pool.plan.num_reserved_blocks}
    assert {usage.null for usage in large} == {0}
    assert [usage.cached for usage in small] == [0, 0, 0, 5]
    assert [usage.cached for usage in large] == [0, 0, 0, 2]
    assert [usage.carved for usage in small] == [3, 9, 9, 9]
    assert [usage.carved for usage in large] == [0, 2, 2, 2]
    assert [usage.used_bytes for usage in stages] == [0, 176, 176, 0]
    assert stages[0].usable_bytes == 20 * 48
