"""Grants: spent in order or given back, and dirty where their bytes mean nothing."""

from kvquarry_core.ids import ClassId, GroupId, Handle
from kvquarry_core.integrity import check_integrity
from kvquarry_core.plan import make_plan
from kvquarry_core.pool import Pool
from kvquarry_core.usage import usage_of
from tests.core.small_pools import (
    admit,
    attention,
    cache,
    grow,
    hybrid,
    one_class,
    states,
    take_all,
    two_classes,
)

SMALL = ClassId(0)
G0, G1 = GroupId(0), GroupId(1)
R1, R2 = Handle(1), Handle(2)


class TestTakeAndSettle:
    def test_blocks_are_spent_in_the_order_granted(self) -> None:
        pool = hybrid()
        granted = admit(pool, R1, "abcde").grant.blocks[0]
        assert pool.take(R1, G0, 2) == granted[:2]
        assert pool.take(R1, G0, 3) == granted[2:]
        assert pool.requests[R1].held[0] == granted
        assert pool.store.num_granted[SMALL] == 0

    def test_unspent_grants_go_back(self) -> None:
        pool = hybrid()
        before = usage_of(pool)
        admit(pool, R1, "abcde")
        pool.settle(R1)
        assert usage_of(pool) == before

    def test_what_was_spent_stays(self) -> None:
        pool = hybrid()
        granted = admit(pool, R1, "abcde").grant.blocks[0]
        pool.take(R1, G0, 2)
        pool.settle(R1)
        assert pool.requests[R1].held[0] == granted[:2]
        assert pool.store.num_granted == [0, 0]
        check_integrity(pool)

    def test_what_was_given_back_is_granted_again_in_the_same_order(self) -> None:
        pool = Pool(one_class(num_blocks=9))
        granted = admit(pool, R1, "abcde").grant.blocks[0]
        pool.settle(R1)
        assert grow(pool, R1, [5]).blocks[0] == granted

    def test_a_lookup_counts_once_when_its_first_blocks_are_spent(self) -> None:
        """C06: counters and answers agree, and a lookup that led to nothing counts for nothing."""
        pool = hybrid()
        cache(pool, R1, "abc")
        before = pool.totals.query_tokens
        admit(pool, R2, "abcde")
        assert (pool.totals.query_tokens, pool.totals.hit_tokens) == (before, 0)
        for _ in range(2):
            pool.take(R2, G0, 1)
            assert (pool.totals.query_tokens, pool.totals.hit_tokens) == (before + 5, 3)
        assert pool.totals.admissions == 2

    def test_a_lookup_without_a_hit_counts_no_hit(self) -> None:
        """C06: hits are counted iff some were returned."""
        pool = hybrid()
        cache(pool, R1, "abc")
        admit(pool, R2, "xyz")
        take_all(pool, R2)
        assert (pool.totals.admissions, pool.totals.hit_tokens) == (2, 0)

    def test_taking_nothing_spends_nothing(self) -> None:
        pool = hybrid()
        admit(pool, R1, "abc")
        assert pool.take(R1, G0, 0) == []
        assert (pool.totals.admissions, pool.totals.query_tokens) == (0, 0)


class TestDirty:
    def test_bytes_that_were_nobodys_are_dirty_and_used_ones_are_not(self) -> None:
        pool = Pool(one_class(num_blocks=9))
        granted = admit(pool, R1, "abc").grant
        assert granted.dirty == granted.blocks
        take_all(pool, R1)
        pool.free(R1)
        again = admit(pool, R2, "abcd").grant
        assert set(again.dirty[0]) == set(again.blocks[0]) - set(granted.blocks[0])

    def test_a_block_that_was_given_back_unspent_is_still_dirty(self) -> None:
        pool = Pool(one_class(num_blocks=9))
        admit(pool, R1, "abc")
        pool.take(R1, G0, 1)
        pool.free(R1)
        granted = admit(pool, R2, "abc").grant
        assert granted.dirty[0] == granted.blocks[0][1:]

    def test_bytes_are_dirty_iff_another_class_used_them_last(self) -> None:
        """One slab goes from attention to states and back; the one emptied last is carved next."""
        pool = Pool(two_classes(num_slabs=2))
        admit(pool, R1, "a")
        pool.settle(R1)
        turns = ([3, 0], [3, 0], [0, 1], [0, 1], [3, 0], [3, 0])
        assert [self.spend_and_drop(pool, wanted) for wanted in turns] == [3, 0, 1, 0, 3, 0]

    def spend_and_drop(self, pool: Pool, wanted: list[int]) -> int:
        """Use some blocks; how many of them were dirty."""
        granted = grow(pool, R1, wanted)
        for group, blocks in enumerate(take_all(pool, R1)):
            for block in blocks:
                pool.drop(R1, GroupId(group), block)
        return sum(map(len, granted.dirty))

    def test_state_bytes_are_dirty_for_attention_of_the_same_page_size(self) -> None:
        """Attention must not read a state's bytes as keys, though they are as many."""
        pool = Pool(make_plan([attention(16), states(16)], 16 * 9))
        admit(pool, R1, "a")
        pool.settle(R1)
        states_held = grow(pool, R1, [0, 7]).blocks[1]
        take_all(pool, R1)
        for block in states_held:
            pool.drop(R1, G1, block)
        granted = grow(pool, R1, [7, 0])
        assert set(granted.blocks[0]) == set(states_held)
        assert granted.dirty[0] == granted.blocks[0], "their bytes were last states"
