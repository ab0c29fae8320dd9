"""Content that is more wanted is evicted later."""

from dataclasses import replace

import pytest

from kvquarry_core.errors import Reason, UsageError
from kvquarry_core.eviction import EVICTIONS, SavedWork, SlabAware
from kvquarry_core.ids import ClassId, GroupId, Handle, KindId
from kvquarry_core.integrity import check_integrity
from kvquarry_core.pool import Pool
from tests.core.small_pools import (
    STATES,
    commit_all,
    grow,
    hashes,
    one_class,
    request,
    run,
    take_all,
    two_classes,
)

SMALL, LARGE = ClassId(0), ClassId(1)


def use(pool: Pool, handle: int, prompt: str, priority: int = 0) -> None:
    """A request of some priority comes, leaves its prompt in the cache and goes."""
    pool.admit(replace(request(handle, prompt), priority=priority))
    take_all(pool, handle)
    commit_all(pool, handle, prompt)
    pool.free(Handle(handle))
    pool.begin_step()
    check_integrity(pool)


def order(pool: Pool, size_class: ClassId = SMALL) -> list[bytes]:
    """What the cached blocks hold, the next victim first."""
    found = [
        pool.store.contents.commitment(size_class, one)
        for one in pool.store.cache.by_age(size_class)
    ]
    return [one.block_hash for one in found if one is not None]


def test_a_higher_priority_outlives_younger_content_of_a_lower_one() -> None:
    pool = Pool(one_class(8))
    use(pool, 1, "a", priority=2)
    use(pool, 2, "b")
    use(pool, 3, "c", priority=1)
    use(pool, 4, "d")
    assert order(pool) == [b"b", b"d", b"c", b"a"]


def test_within_a_priority_the_oldest_goes_first_and_tails_before_heads() -> None:
    pool = Pool(one_class(8))
    use(pool, 1, "ab", priority=1)
    use(pool, 2, "cd", priority=1)
    assert order(pool) == [b"ab", b"a", b"cd", b"c"]


def test_a_block_of_several_requests_has_the_highest_priority_of_any() -> None:
    """Whoever came first, and whoever went last."""
    pool = Pool(one_class(8))
    use(pool, 1, "ab", priority=3)
    use(pool, 2, "abc")
    use(pool, 3, "x", priority=1)
    use(pool, 4, "xy", priority=2)
    assert order(pool) == [b"abc", b"xy", b"x", b"ab", b"a"]
    assert pool.store.cache.priority_of(SMALL, next(pool.store.cache.by_age(SMALL))) == 0


def test_evicted_content_leaves_no_priority_behind() -> None:
    pool = Pool(one_class(4))
    use(pool, 1, "ab", priority=3)
    pool.admit(request(2, "x"))
    grow(pool, 2, [3])
    assert not pool.store.contents.priorities.of_class[SMALL]
    assert not list(pool.store.contents.priorities.slabs())
    pool.free(Handle(2))
    use(pool, 3, "cd")
    use(pool, 4, "e", priority=1)
    assert order(pool) == [b"cd", b"c", b"e"]


def test_what_has_no_content_has_no_priority() -> None:
    pool = Pool(one_class(8))
    pool.admit(replace(request(1, "ab"), priority=3))
    take_all(pool, 1)
    pool.free(Handle(1))
    assert not pool.store.contents.priorities.of_class[SMALL]
    check_integrity(pool)


def test_a_slab_of_another_class_goes_by_its_most_wanted_block() -> None:
    """Attention takes the slab of a younger state rather than that of a more wanted, older one."""
    pool = Pool(two_classes(num_slabs=4))
    use(pool, 1, "a", priority=1)
    use(pool, 2, "b")
    pool.admit(request(3, "xyz"))
    slabs = pool.store.slabs
    free = slabs.num_free(SMALL) + 3 * slabs.num_unassigned
    grow(pool, 3, [free + 1, 0])
    assert pool.store.index.find(STATES, hashes("a")[0]) is not None
    assert pool.store.index.find(STATES, hashes("b")[0]) is None
    check_integrity(pool)


def test_what_a_request_drops_on_the_way_has_its_priority_too() -> None:
    pool = Pool(one_class(8))
    pool.admit(replace(request(1, "ab"), priority=1))
    take_all(pool, 1)
    commit_all(pool, 1, "ab")
    pool.drop(Handle(1), GroupId(0), pool.requests[Handle(1)].held[0][0])
    use(pool, 2, "x")
    assert order(pool) == [b"x", b"a"]


def test_slab_aware_leaves_a_wanted_slab_while_others_have_less() -> None:
    """Slab 1 is idle and wanted; of slab 2 a block is in use and another one cached."""
    pool = Pool(two_classes(num_slabs=12), eviction=SlabAware())
    use(pool, 1, "xyz", priority=1)
    run(pool, 2, "q")
    use(pool, 3, "b")
    store = pool.store
    [oldest] = [one for one in store.cache.by_age(SMALL) if not store.cache.priority_of(SMALL, one)]
    assert list(SlabAware().victims(store.cache, SMALL, 1)) == [oldest]


def test_slab_aware_takes_no_wanted_block_along() -> None:
    pool = Pool(two_classes(num_slabs=12), eviction=SlabAware())
    use(pool, 1, "ab")
    use(pool, 2, "x", priority=1)
    oldest = next(pool.store.cache.by_age(SMALL))
    assert list(SlabAware().victims(pool.store.cache, SMALL, 1)) == [oldest]


def test_saved_work_compares_only_what_is_wanted_equally() -> None:
    """A deep checkpoint that nobody wants goes before a shallow one that somebody does."""
    pool = Pool(two_classes(num_slabs=14), eviction=SavedWork())
    use(pool, 1, "abcdefgh")
    use(pool, 2, "x", priority=1)
    [victim] = SavedWork().victims(pool.store.cache, LARGE, 1)
    assert pool.store.cache.priority_of(LARGE, victim) == 0


@pytest.mark.parametrize("name", EVICTIONS)
def test_every_eviction_keeps_priorities(name: str) -> None:
    pool = Pool(one_class(6), eviction=EVICTIONS[name]())
    use(pool, 1, "abc", priority=1)
    use(pool, 2, "x")
    pool.admit(request(3, "klmn"))
    assert set(order(pool)) <= {b"a", b"ab"}
    assert pool.store.index.find(KindId(0), hashes("x")[0]) is None


@pytest.mark.parametrize("priority", [-1, 4])
def test_an_unknown_priority_is_refused(priority: int) -> None:
    with pytest.raises(UsageError, match=f"from 0 to 3, not {priority}") as caught:
        Pool(one_class(4)).admit(replace(request(1, "a"), priority=priority))
    assert caught.value.reason is Reason.INVALID_ARGUMENT
