"""Slabs: carved for one class at a time, and every one of their blocks handed out once."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvquarry_core.ids import BlockId, ClassId, SlabId
from kvquarry_core.slabs import SlabMap
from tests.core.small_pools import one_class, two_classes
from tests.strategies import examples

SMALL, LARGE = ClassId(0), ClassId(1)
PLAN = two_classes(num_slabs=3)
PER_SLAB = [size_class.blocks_per_slab for size_class in PLAN.classes]


class PlainSlabs:
    """Owners and free blocks in plain sets."""

    def __init__(self) -> None:
        self.owner: dict[SlabId, ClassId] = {}
        self.free: dict[SlabId, set[BlockId]] = {}

    def carved(self, slab: SlabId, size_class: ClassId) -> None:
        """A slab begins with all of its blocks free."""
        per_slab = PER_SLAB[size_class]
        assert slab not in self.owner
        self.owner[slab] = size_class
        self.free[slab] = {BlockId(slab * per_slab + i) for i in range(per_slab)}

    def check(self, slabs: SlabMap) -> None:
        """The map says the same."""
        assert slabs.num_unassigned == PLAN.num_slabs - len(self.owner)
        for number in range(PLAN.num_slabs):
            slab = SlabId(number)
            assert slabs.owner(slab) == self.owner.get(slab)
            if slab in self.owner:
                found = slabs.free_blocks(slab)
                assert set(found) == self.free[slab]
                assert len(found) == slabs.num_free_in(slab) == len(self.free[slab])
                assert slabs.is_empty(slab) == (len(found) == PER_SLAB[self.owner[slab]])
        for size_class in (SMALL, LARGE):
            mine = [slab for slab, owner in self.owner.items() if owner == size_class]
            assert slabs.num_carved(size_class) == len(mine)
            assert slabs.num_free(size_class) == sum(len(self.free[slab]) for slab in mine)
            partial = {slab for slab in mine if self.free[slab]}
            assert set(slabs.partial(size_class)) == partial
            assert not slabs.partial_idle(size_class)


@examples(300)
@given(st.lists(st.tuples(st.sampled_from(["carve", "pop", "push"]), st.integers(0, 7))))
def test_a_block_is_free_or_out_and_never_both(steps: list[tuple[str, int]]) -> None:
    slabs, plain = SlabMap(PLAN), PlainSlabs()
    out: list[tuple[ClassId, BlockId]] = []
    for action, number in steps:
        with_free = [slab for slab, free in plain.free.items() if free]
        if action == "carve" and slabs.num_unassigned:
            size_class = ClassId(number % 2)
            plain.carved(slabs.carve(size_class), size_class)
        elif action == "pop" and with_free:
            slab = with_free[number % len(with_free)]
            [block] = slabs.pop_free(slab, 1)
            plain.free[slab].remove(block)
            out.append((plain.owner[slab], block))
        elif action == "push" and out:
            size_class, block = out.pop(number % len(out))
            slabs.unuse(size_class, slabs.slab_of(size_class, block), 1)
            [slab] = slabs.push_free(size_class, [block])
            plain.free[slab].add(block)
            if slabs.is_empty(slab):
                slabs.reclaim(slab)
                del plain.owner[slab], plain.free[slab]
        plain.check(slabs)


def test_blocks_of_a_fresh_slab_come_in_order_of_their_ids() -> None:
    slabs = SlabMap(PLAN)
    slabs.carve(LARGE)
    slab = slabs.carve(SMALL)
    assert slabs.pop_free(slab, 2) + slabs.pop_free(slab, 1) == [3, 4, 5]


def test_the_block_freed_last_is_taken_first() -> None:
    slabs = SlabMap(PLAN)
    slab = slabs.carve(SMALL)
    blocks = slabs.pop_free(slab, 3)
    for block in (blocks[0], blocks[2]):
        slabs.unuse(SMALL, slab, 1)
        slabs.push_free(SMALL, [block])
    assert slabs.pop_free(slab, 2) == [blocks[2], blocks[0]]


def test_a_slab_in_use_is_not_reclaimed() -> None:
    slabs = SlabMap(PLAN)
    slab = slabs.carve(SMALL)
    slabs.pop_free(slab, 1)
    with pytest.raises(AssertionError, match="blocks in use"):
        slabs.reclaim(slab)


def test_bytes_of_another_class_are_dirty_until_they_are_cleaned() -> None:
    slabs = SlabMap(PLAN)
    slab = slabs.carve(SMALL)
    first, second, third = slabs.pop_free(slab, 3)
    assert all(slabs.is_dirty(SMALL, block) for block in (first, second, third))
    slabs.clean(SMALL, [first, second])
    assert [slabs.is_dirty(SMALL, b) for b in (first, second, third)] == [False, False, True]
    reuse(slabs, slab, SMALL)
    assert [slabs.is_dirty(SMALL, b) for b in (first, second, third)] == [False, False, True]
    assert slabs.num_class_changes == [[0, 0], [0, 0]]
    reuse(slabs, slab, LARGE)
    reuse(slabs, slab, SMALL)
    assert all(slabs.is_dirty(SMALL, block) for block in (first, second, third))
    assert slabs.num_class_changes == [[0, 1], [1, 0]]


def reuse(slabs: SlabMap, slab: SlabId, size_class: ClassId) -> None:
    """Empty a slab and carve it again."""
    owner = slabs.owner(slab)
    assert owner is not None
    for block in range(slab * PER_SLAB[owner], (slab + 1) * PER_SLAB[owner]):
        if BlockId(block) not in slabs.free_blocks(slab):
            slabs.unuse(owner, slab, 1)
            slabs.push_free(owner, [BlockId(block)])
    slabs.reclaim(slab)
    assert slabs.carve(size_class) == slab


def test_a_pool_of_one_class_is_one_slab() -> None:
    slabs = SlabMap(one_class(num_blocks=9))
    slab = slabs.carve(SMALL)
    assert slabs.num_unassigned == 0
    assert slabs.pop_free(slab, 99) == list(range(10))
