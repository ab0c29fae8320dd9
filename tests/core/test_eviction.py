"""Who has to go when memory is short, and where the next block comes from."""

import pytest

from kvquarry_core.ids import BlockHash, BlockId, ClassId, GroupId, Handle, KindId
from kvquarry_core.integrity import check_integrity
from kvquarry_core.placement import PLACEMENTS, Affinity, FirstFit, Placement
from kvquarry_core.plan import Plan, make_plan
from kvquarry_core.pool import Pool
from tests.core.small_pools import (
    ATTENTION,
    STATES,
    admit,
    attention,
    cache,
    grow,
    hashes,
    one_class,
    run,
    states,
    take_all,
    two_classes,
)

SMALL, LARGE = ClassId(0), ClassId(1)
HOLDER, PASSER_BY = Handle(1000), Handle(1001)


def slabs_of_128(num_slabs: int) -> Plan:
    """Slabs of 128 blocks of attention or one state, and one more for the null blocks."""
    return make_plan([attention(16), states(128 * 16)], (num_slabs + 1) * 128 * 16)


def with_holder(pool: Pool, holder: Handle = HOLDER) -> Pool:
    """The pool with a request that has nothing yet."""
    admit(pool, holder, "h")
    pool.settle(holder)
    return pool


def hold(pool: Pool, group: int, num_blocks: int, holder: Handle = HOLDER) -> list[BlockId]:
    """Blocks for the holder."""
    wanted = [0] * len(pool.plan.groups)
    wanted[group] = num_blocks
    grow(pool, holder, wanted)
    return take_all(pool, holder)[group]


def cache_row(
    pool: Pool, kind: KindId, name: bytes, holder: Handle = HOLDER
) -> tuple[BlockId, ...]:
    """One row with a hash that nobody uses."""
    members = pool.plan.kinds[kind]
    row = tuple(hold(pool, group, 1, holder)[0] for group in members)
    pool.commit(holder, kind, BlockHash(name), row)
    for group, block in zip(members, row, strict=True):
        pool.drop(holder, group, block)
    return row


def cached_names(pool: Pool, size_class: ClassId) -> list[bytes]:
    """The hashes of the cached blocks, the next victim first."""
    names: list[bytes] = []
    for block in pool.store.cache.by_age(size_class):
        commitment = pool.store.contents.commitment(size_class, block)
        assert commitment is not None
        names.append(commitment.block_hash)
    return names


def test_the_block_used_longest_ago_goes_first() -> None:
    pool = with_holder(Pool(one_class(num_blocks=4)))
    for name in (b"a", b"b", b"c", b"d"):
        cache_row(pool, ATTENTION, name)
    admit(pool, 1, "ax")  # evicts b for the second block, and uses a again
    pool.free(Handle(1))
    assert cached_names(pool, SMALL) == [b"c", b"d", b"a"]
    hold(pool, 0, 2)
    assert cached_names(pool, SMALL) == [b"d", b"a"]


def test_content_whose_name_is_empty_is_evicted_like_any_other() -> None:
    pool = with_holder(Pool(one_class(num_blocks=4)))
    cache_row(pool, ATTENTION, b"")
    hold(pool, 0, 4)
    assert cached_names(pool, SMALL) == []
    check_integrity(pool)


def test_free_returns_tail_before_head() -> None:
    """So that the head, which more requests share, outlives the tail."""
    pool = with_holder(Pool(one_class(num_blocks=6)))
    cache(pool, 0, "abcdef")
    assert cached_names(pool, SMALL) == list(reversed(hashes("abcdef")))
    hold(pool, 0, 2)
    pool.free(HOLDER)
    assert admit(pool, 1, "abcdef").hit_tokens == 4


def test_the_tail_of_all_groups_of_a_kind_goes_before_the_head() -> None:
    pool = with_holder(Pool(one_class(num_blocks=6, num_groups=2)))
    cache(pool, 0, "abc")
    hold(pool, 0, 1)
    assert set(cached_names(pool, SMALL)) == set(hashes("ab"))


def test_rows_are_evicted_together_and_leave_no_orphan() -> None:
    """The row of the one victim frees a block in each of the three slabs it lies in."""
    pool = with_holder(Pool(two_classes(num_slabs=4, num_state_groups=3)))
    row = cache_row(pool, STATES, b"s")
    assert pool.store.cache.num_cached(LARGE) == 3
    hold(pool, 1, 2)
    assert pool.store.index.find(STATES, BlockHash(b"s")) is None
    assert pool.store.cache.num_cached(LARGE) == 0
    assert all(pool.store.contents.commitment(LARGE, block) is None for block in row)
    assert pool.store.num_evictions == [0, 3]
    check_integrity(pool)


def test_a_row_with_a_block_in_use_loses_its_hash_but_not_that_block() -> None:
    pool = with_holder(Pool(two_classes(num_slabs=3, num_state_groups=2)))
    row = (hold(pool, 1, 1)[0], hold(pool, 2, 1)[0])
    pool.commit(HOLDER, STATES, BlockHash(b"s"), row)
    pool.drop(HOLDER, GroupId(1), row[0])
    hold(pool, 1, 2)
    assert pool.store.index.find(STATES, BlockHash(b"s")) is None
    assert pool.store.num_references(LARGE, row[1]) == 1
    check_integrity(pool)


def test_a_slab_of_another_class_goes_iff_it_is_idle_longer_than_the_own_victim() -> None:
    pool = with_holder(with_holder(Pool(two_classes(num_slabs=3))), PASSER_BY)
    for name in (b"a1", b"a2", b"a3"):
        cache_row(pool, ATTENTION, name)
    cache_row(pool, STATES, b"s", PASSER_BY)
    pool.free(PASSER_BY)
    for name in (b"b1", b"b2", b"b3"):
        cache_row(pool, ATTENTION, name)
    assert pool.store.slabs.num_unassigned == 0
    hold(pool, 1, 1)
    assert cached_names(pool, SMALL) == [b"b1", b"b2", b"b3"]
    assert cached_names(pool, LARGE) == [b"s"]
    hold(pool, 1, 1)
    assert cached_names(pool, SMALL) == [b"b1", b"b2", b"b3"]
    assert cached_names(pool, LARGE) == []


def test_an_unassigned_slab_is_used_before_anything_is_evicted() -> None:
    pool = with_holder(Pool(two_classes(num_slabs=2)))
    cache_row(pool, STATES, b"s")
    hold(pool, 1, 1)
    assert cached_names(pool, LARGE) == [b"s"]


def test_an_emptied_slab_goes_back() -> None:
    pool = with_holder(Pool(two_classes(num_slabs=2)))
    blocks = hold(pool, 0, 3)
    assert pool.store.slabs.num_unassigned == 1
    for block in blocks:
        pool.drop(HOLDER, GroupId(0), block)
    assert pool.store.slabs.num_unassigned == 2


def test_slab_aware_eviction_frees_whole_slabs() -> None:
    """C12: 32 slabs full of cached blocks, every 8th used again: 28 states cost 28 slabs.

    Plain recency would evict the other seven eighths block by block and free not one slab until
    the last eighth goes. One slab is one state here and 128 blocks.
    """
    pool = with_holder(Pool(slabs_of_128(num_slabs=32)))
    names = [BlockHash(b"%d" % number) for number in range(32 * 128)]
    rows = [(block,) for block in hold(pool, 0, len(names))]
    for name, row in zip(names, rows, strict=True):
        pool.commit(HOLDER, ATTENTION, name, row)
    touched_again = rows[::8]
    for row in (*(row for row in rows if row not in set(touched_again)), *touched_again):
        pool.drop(HOLDER, GroupId(0), row[0])
    hold(pool, 1, 28)
    assert pool.store.num_evictions == [28 * 128, 0]
    assert pool.store.slabs.num_class_changes[SMALL][LARGE] == 28
    assert pool.store.cache.num_cached(SMALL) == 4 * 128


class TestPlacement:
    """Three requests fill a slab each; first the one in the middle gets room, then the lowest."""

    def filled(self, placement: Placement) -> tuple[Pool, list[int]]:
        """The pool, and the slabs of requests 0, 1 and 2 in ascending order."""
        pool = Pool(two_classes(num_slabs=4), placement=placement)
        for handle in range(3):
            admit(pool, handle, "x")
            pool.settle(Handle(handle))
            grow(pool, handle, [3, 0])
            take_all(pool, handle)
        held = [pool.requests[Handle(handle)].held[0] for handle in range(3)]
        slabs = [blocks[0] // 3 for blocks in held]
        assert slabs == sorted(set(slabs))
        for handle in (1, 0):
            pool.drop(Handle(handle), GroupId(0), held[handle][0])
        return pool, slabs

    def next_slab(self, pool: Pool, handle: int) -> int:
        """The slab a request's next block of attention lies in."""
        [block] = grow(pool, handle, [1, 0]).blocks[0]
        return block // 3

    def test_affinity_takes_the_slab_of_the_request_first(self) -> None:
        for handle in (0, 1):
            pool, slabs = self.filled(Affinity())
            assert self.next_slab(pool, handle) == slabs[handle]

    def test_affinity_takes_the_lowest_slab_next(self) -> None:
        pool, slabs = self.filled(Affinity())
        assert self.next_slab(pool, 2) == slabs[0]

    def test_first_fit_takes_the_lowest_slab_whoever_asks(self) -> None:
        for handle in (0, 1, 2):
            pool, slabs = self.filled(FirstFit())
            assert self.next_slab(pool, handle) == slabs[0]

    @pytest.mark.parametrize("name", PLACEMENTS)
    def test_every_placement_carves_only_when_no_slab_has_room(self, name: str) -> None:
        pool, slabs = self.filled(PLACEMENTS[name]())
        taken = [self.next_slab(pool, 2) for _ in range(3)]
        assert set(taken[:2]) == set(slabs[:2])
        assert taken[2] not in slabs
        check_integrity(pool)


class TestReach:
    """Attention after a request's last checkpoint: no hit can use it, so it goes first."""

    def filled(self) -> Pool:
        """Two prompts without an answer, then one with an answer of two blocks."""
        pool = with_holder(Pool(two_classes(num_slabs=6)))
        cache(pool, 0, "ab")
        run(pool, 1, "xy")
        grow(pool, 1, [2, 0])
        blocks = take_all(pool, 1)[0]
        for name, block in zip(hashes("xyzz")[2:], blocks, strict=True):
            pool.commit(Handle(1), ATTENTION, name, (block,))
        pool.free(Handle(1))
        pool.begin_step()
        return pool

    def test_what_no_hit_reaches_is_evicted_before_what_is_older(self) -> None:
        pool = self.filled()
        x, y, z, zz = hashes("xyzz")
        assert cached_names(pool, SMALL) == [zz, z, *reversed(hashes("ab")), y, x]
        check_integrity(pool)

    def test_it_still_shows_the_junction(self) -> None:
        admission = admit(self.filled(), 2, "xyzzq")
        assert (admission.hit_tokens, admission.longest_tokens) == (2, 4)

    def test_a_checkpoint_that_was_gone_already_reaches_nothing(self) -> None:
        pool = with_holder(Pool(two_classes(num_slabs=6)))
        cache(pool, 0, "ab")
        run(pool, 1, "xy")
        pool.forget(GroupId(1), pool.requests[Handle(1)].held[1])
        pool.free(Handle(1))
        assert cached_names(pool, SMALL) == [*reversed(hashes("xy")), *reversed(hashes("ab"))]

    def test_a_slab_of_such_blocks_alone_is_the_first_that_another_class_gets(self) -> None:
        pool = with_holder(Pool(slabs_of_128(num_slabs=3)))
        old, new = (hold(pool, 0, 128) for _ in range(2))
        for place, block in enumerate(old):
            pool.commit(HOLDER, ATTENTION, BlockHash(b"old %d" % place), (block,))
        pool.drop_blocks(HOLDER, GroupId(0), old)
        for place, block in enumerate(new):
            pool.commit(HOLDER, ATTENTION, BlockHash(b"new %d" % place), (block,))
        pool.free(HOLDER)
        assert list(pool.store.cache.idle_slabs(SMALL)) == [new[0] // 128, old[0] // 128]
        check_integrity(pool)

    def test_blocks_of_one_size_keep_the_order_of_stock(self) -> None:
        pool = with_holder(Pool(make_plan([attention(48), states(48)], 12 * 48)))
        row = (hold(pool, 0, 1)[0],)
        pool.commit(HOLDER, ATTENTION, BlockHash(b"old"), row)
        pool.drop(HOLDER, GroupId(0), row[0])
        [block] = hold(pool, 0, 1)
        pool.commit(HOLDER, ATTENTION, BlockHash(b"new"), (block,))
        pool.free(HOLDER)
        assert cached_names(pool, SMALL) == [b"old", b"new"]
