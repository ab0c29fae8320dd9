"""What each eviction lets go, where they differ."""

import pytest

from kvquarry_core.errors import Reason, UsageError
from kvquarry_core.eviction import EVICTIONS, CacheView, Eviction, Lru, SavedWork, SlabAware
from kvquarry_core.ids import BlockHash, BlockId, ClassId, GroupId, Handle, KindId
from kvquarry_core.integrity import check_integrity
from kvquarry_core.plan import make_plan
from kvquarry_core.policies import BUILT_IN, PolicyNames
from kvquarry_core.pool import Pool
from tests.core.small_pools import STATES, admit, attention, cache, grow, states, take_all

SMALL, LARGE = ClassId(0), ClassId(1)
ATTENTION = KindId(0)
PER_SLAB = 128


def full_of_cached_blocks(eviction: Eviction, num_in_use_per_slab: int = 0) -> Pool:
    """32 slabs of 128 blocks, all cached; those between every 8th fell out of use first."""
    pool = pool_of(33, eviction)
    blocks = hold_committed(pool, Handle(1), 32 * PER_SLAB)
    falling = [block for block in blocks if block % PER_SLAB >= num_in_use_per_slab]
    touch_every_8th(pool, Handle(1), falling)
    return pool


def pool_of(num_slabs: int, eviction: Eviction) -> Pool:
    """Slabs of 128 blocks of attention or one state, and one more for the null blocks."""
    plan = make_plan([attention(16), states(PER_SLAB * 16)], (num_slabs + 1) * PER_SLAB * 16)
    return Pool(plan, eviction=eviction)


def hold_committed(pool: Pool, handle: Handle, num_blocks: int) -> list[BlockId]:
    """Attention blocks of a request, in their order, each under a hash of its own."""
    admit(pool, handle, "h")
    pool.settle(handle)
    grow(pool, handle, [num_blocks, 0])
    blocks = take_all(pool, handle)[0]
    for block in blocks:
        pool.commit(handle, ATTENTION, BlockHash(b"%d" % block), (block,))
    return blocks


def touch_every_8th(pool: Pool, handle: Handle, blocks: list[BlockId]) -> None:
    """All of the blocks fall out of use, and of eight the first one last."""
    last = blocks[::8]
    pool.drop_blocks(handle, GroupId(0), [block for block in blocks if block not in set(last)])
    pool.drop_blocks(handle, GroupId(0), last)


def num_slabs_freed(pool: Pool, eviction: Eviction, num_left: int) -> int:
    """By evicting until so many blocks are left."""
    before = pool.store.slabs.num_unassigned
    while pool.store.cache.num_cached(SMALL) > num_left:
        victims = eviction.victims(pool.store.cache, SMALL, 1)
        pool.store.evict(SMALL, victims[: pool.store.cache.num_cached(SMALL) - num_left])
    assert pool.store.cache.num_cached(SMALL) == num_left
    check_integrity(pool)
    return pool.store.slabs.num_unassigned - before


@pytest.mark.parametrize(("eviction", "num_freed"), [(Lru(), 1), (SlabAware(), 28)])
def test_c12_evicting_seven_eighths_frees_one_slab_or_seven_eighths_of_them(
    eviction: Eviction, num_freed: int
) -> None:
    """As many evictions either way: 4,096 blocks, every 8th touched, 512 left.

    One block in front of them is in use, as the null block is where this was reported. So the last
    block lies in a slab of its own, and nobody touched it: that is the one slab of plain recency.
    """
    pool = pool_of(34, eviction)
    hold_committed(pool, Handle(1), 1)
    blocks = hold_committed(pool, Handle(2), 32 * PER_SLAB)
    assert blocks[0] % PER_SLAB == 1
    touch_every_8th(pool, Handle(2), blocks)
    assert num_slabs_freed(pool, eviction, num_left=512) == num_freed
    assert pool.store.num_evictions[SMALL] == 3_584


@pytest.mark.parametrize(("eviction", "num_freed"), [(Lru(), 0), (SlabAware(), 28)])
def test_c12_where_slabs_begin_with_the_blocks_plain_recency_frees_none(
    eviction: Eviction, num_freed: int
) -> None:
    pool = full_of_cached_blocks(eviction)
    assert num_slabs_freed(pool, eviction, num_left=512) == num_freed
    assert pool.store.num_evictions[SMALL] == 3_584


@pytest.mark.parametrize(("eviction", "num_freed"), [(Lru(), 0), (SlabAware(), 29)])
def test_c12_requests_that_generate_side_by_side_and_end_far_apart(
    eviction: Eviction, num_freed: int
) -> None:
    """64 requests of 33 to 96 blocks, a block in turn, so each slab has some of nearly all."""
    pool = pool_of(34, eviction)
    handles = [Handle(number) for number in range(64)]
    for handle in handles:
        hold_committed(pool, handle, 1)
    for num_blocks in range(2, 97):
        for handle in handles[max(num_blocks - 33, 0) :]:
            grow(pool, handle, [1, 0])
            [block] = take_all(pool, handle)[0]
            pool.commit(handle, ATTENTION, BlockHash(b"%d" % block), (block,))
    end_last = handles[::8]
    for handle in (*(handle for handle in handles if handle not in end_last), *end_last):
        pool.drop_blocks(handle, GroupId(0), list(pool.requests[handle].held[0]))
    assert pool.store.cache.num_cached(SMALL) == 4_128
    assert num_slabs_freed(pool, eviction, num_left=512) == num_freed


def test_recency_lets_a_run_of_one_slab_go_at_once() -> None:
    """As many as are wanted, the oldest first, and none of another slab."""
    held = full_of_cached_blocks(Lru()).store.cache
    by_age = list(held.by_age(SMALL))
    slabs = [block // PER_SLAB for block in by_age]
    length = next(place for place, slab in enumerate(slabs) if slab != slabs[0])
    assert Lru().victims(held, SMALL, len(by_age)) == by_age[:length]
    assert Lru().victims(held, SMALL, 1) == by_age[:1]


def test_slab_aware_clears_a_whole_idle_slab_for_one_block() -> None:
    pool = full_of_cached_blocks(SlabAware())
    grow(pool, 1, [pool.store.num_available()[SMALL] - 32 * PER_SLAB, 0])  # what is free
    assert pool.store.num_evictions[SMALL] == 0
    oldest = next(pool.store.cache.idle_slabs(SMALL))
    [block] = grow(pool, 1, [1, 0]).blocks[0]
    assert pool.store.slabs.slab_of(SMALL, block) == oldest
    assert pool.store.num_evictions[SMALL] == PER_SLAB


def test_slab_aware_takes_the_oldest_block_where_no_slab_is_idle() -> None:
    """A block beside one in use frees no slab, so recency decides."""
    held = full_of_cached_blocks(SlabAware(), num_in_use_per_slab=1).store.cache
    assert list(held.idle_slabs(SMALL)) == []
    assert SlabAware().victims(held, SMALL, 1) == [next(held.by_age(SMALL))]


def checkpoint(pool: Pool, handle: int, prompt: str) -> BlockId:
    """A cached state after a prompt."""
    cache(pool, handle, prompt)
    row = pool.store.index.find(STATES, BlockHash(prompt.encode()))
    assert row is not None
    return row


def test_saved_work_keeps_a_deep_checkpoint_over_a_younger_shallow_one() -> None:
    """Recency would let the deep one go; it saves eight times the tokens."""
    plan = make_plan([attention(16), states(48)], 48 * 20)
    pool = Pool(plan, eviction=SavedWork())
    deep = checkpoint(pool, 1, "abcdefgh")
    shallow = checkpoint(pool, 2, "x")
    assert list(pool.store.cache.by_age(LARGE)) == [deep, shallow]
    assert Lru().victims(pool.store.cache, LARGE, 1) == [deep]
    assert SavedWork().victims(pool.store.cache, LARGE, 1) == (shallow,)


def test_saved_work_goes_by_recency_among_equals() -> None:
    pool = Pool(make_plan([attention(16), states(48)], 48 * 20), eviction=SavedWork())
    older = checkpoint(pool, 1, "abc")
    checkpoint(pool, 2, "xyz")
    assert list(SavedWork().victims(pool.store.cache, LARGE, 1)) == [older]


@pytest.mark.parametrize("kind", ["placement", "eviction", "relocation", "retention"])
def test_an_unknown_name_is_refused_with_those_there_are(kind: str) -> None:
    with pytest.raises(UsageError, match=f"there is no {kind} 'newest'; there are ") as caught:
        BUILT_IN.make(PolicyNames(**{kind: "newest"}))
    assert caught.value.reason is Reason.UNKNOWN_POLICY


def test_a_policy_is_made_anew_for_every_pool() -> None:
    names = PolicyNames(eviction="saved-work")
    assert BUILT_IN.make(names).eviction is not BUILT_IN.make(names).eviction


@pytest.mark.parametrize("name", EVICTIONS)
def test_an_idle_slab_is_worth_what_its_age_says(name: str) -> None:
    """So that classes are compared by one measure."""
    view: CacheView = full_of_cached_blocks(EVICTIONS[name]()).store.cache
    eviction = EVICTIONS[name]()
    worths = [eviction.slab_worth(view, SMALL, slab) for slab in view.idle_slabs(SMALL)]
    assert worths == sorted(worths)
    assert len(set(worths)) > 1
