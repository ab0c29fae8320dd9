"""Slabs: who owns which stretch of the pool, and which of its blocks are free.

Invariant: a block is in its slab's free list iff nobody uses it and it carries no hash. Blocks
never handed out since their slab was carved are not listed but counted (``fresh``), so carving
costs O(1) however many blocks a slab holds.

A slab is *in use* from its carving on while a block of it is referenced or granted. Free blocks of
slabs in use are kept apart from those of slabs that hold cached content alone: a slab nobody uses
is what another class can have.
"""

import heapq
from array import array
from collections import Counter
from collections.abc import Container, Iterable, Iterator, MutableSequence, Sequence
from itertools import compress, repeat, takewhile
from operator import floordiv
from typing import cast

from kvquarry_core.ids import BlockId, ClassId, SlabId
from kvquarry_core.plan import Plan

_NONE = BlockId(-1)


class SlabMap:
    """Carves slabs for size classes and hands out their free blocks."""

    def __init__(self, plan: Plan) -> None:
        self._blocks_per_slab = [size_class.blocks_per_slab for size_class in plan.classes]
        self._owner = array("i", [_NONE]) * plan.num_slabs
        self._last_owner = array("i", [_NONE]) * plan.num_slabs
        self._num_free = array("i", [0]) * plan.num_slabs
        # Typed as what their items mean: a cast for each item would be a call for each.
        self._free_head = cast("MutableSequence[BlockId]", array("i", [_NONE]) * plan.num_slabs)
        self._num_fresh = array("i", [0]) * plan.num_slabs
        self._next_free = cast(
            "list[MutableSequence[BlockId]]",
            [array("i", [_NONE]) * c.num_blocks for c in plan.classes],
        )
        self._dirty = [bytearray(c.num_blocks) for c in plan.classes]
        self._num_used = array("i", [0]) * plan.num_slabs
        self._unassigned = list(range(plan.num_slabs - 1, -1, -1))
        # Insertion-ordered sets: carved slabs with a free block, the longest such first.
        # The heaps hold the same slabs in use and some that are so no longer.
        self._partial: list[dict[SlabId, None]] = [{} for _ in plan.classes]
        self._partial_idle: list[dict[SlabId, None]] = [{} for _ in plan.classes]
        self._lowest: list[list[SlabId]] = [[] for _ in plan.classes]
        self._carved: list[set[SlabId]] = [set() for _ in plan.classes]
        #: Free blocks in the slabs of each class; not to be changed.
        self.num_free_of_class = [0] * len(plan.classes)
        #: How often a slab went from one class (first index) to another (second).
        self.num_class_changes = [[0] * len(plan.classes) for _ in plan.classes]

    @property
    def num_unassigned(self) -> int:
        """Slabs that belong to no class."""
        return len(self._unassigned)

    def num_carved(self, size_class: ClassId) -> int:
        """Slabs that belong to ``size_class``."""
        return len(self._carved[size_class])

    def num_free(self, size_class: ClassId) -> int:
        """Free blocks in the slabs of ``size_class``."""
        return self.num_free_of_class[size_class]

    def num_free_in(self, slab: SlabId) -> int:
        """Free blocks in one slab."""
        return self._num_free[slab]

    def num_used_in(self, slab: SlabId) -> int:
        """Referenced and granted blocks in one slab."""
        return self._num_used[slab]

    def owner(self, slab: SlabId) -> ClassId | None:
        """The class a slab belongs to, or None when it is unassigned."""
        owner = self._owner[slab]
        return None if owner == _NONE else ClassId(owner)

    def slab_of(self, size_class: ClassId, block: BlockId) -> SlabId:
        """The slab a block lies in."""
        return SlabId(block // self._blocks_per_slab[size_class])

    def count_by_slab(self, size_class: ClassId, blocks: Sequence[BlockId]) -> dict[SlabId, int]:
        """How many of ``blocks`` lie in each slab, in the order in which the slabs appear."""
        if len(self._owner) == 1:
            return {SlabId(0): len(blocks)} if blocks else {}
        if len(blocks) == 1:
            return {self.slab_of(size_class, blocks[0]): 1}
        slabs = map(floordiv, blocks, repeat(self._blocks_per_slab[size_class]))
        return cast("dict[SlabId, int]", Counter(slabs))

    def leading_of_one_slab(self, size_class: ClassId, blocks: Sequence[BlockId]) -> list[BlockId]:
        """The first of ``blocks``, and those after it up to the first one of another slab."""
        span = self.span(size_class, self.slab_of(size_class, blocks[0]))
        return list(takewhile(range(span.start, span.stop).__contains__, blocks))

    def partial(self, size_class: ClassId) -> dict[SlabId, None]:
        """The class's slabs in use with a free block, as an ordered set; not to be changed."""
        return self._partial[size_class]

    def lowest_partial(self, size_class: ClassId) -> SlabId | None:
        """The lowest-numbered slab of :meth:`partial`; O(1) when amortised."""
        heap, partial = self._lowest[size_class], self._partial[size_class]
        while heap and heap[0] not in partial:
            heapq.heappop(heap)
        return heap[0] if heap else None

    def partial_idle(self, size_class: ClassId) -> dict[SlabId, None]:
        """The same of slabs that hold cached content alone."""
        return self._partial_idle[size_class]

    def mixed(self, size_class: ClassId, leaving: Container[SlabId] = ()) -> SlabId | None:
        """A slab of the class in use that holds cached blocks, too; O(slabs of the class)."""
        per_slab = self._blocks_per_slab[size_class]
        for slab in self.in_use(size_class):
            if self._num_used[slab] < per_slab - self._num_free[slab] and slab not in leaving:
                return slab
        return None

    def in_use(self, size_class: ClassId) -> Iterator[SlabId]:
        """The slabs of a class with a used block, the lowest first; O(slabs of the class)."""
        return (slab for slab in sorted(self._carved[size_class]) if self._num_used[slab])

    def span(self, size_class: ClassId, slab: SlabId) -> slice:
        """Where the blocks of a slab lie among all of its class."""
        per_slab = self._blocks_per_slab[size_class]
        return slice(slab * per_slab, (slab + 1) * per_slab)

    def blocks_of(self, size_class: ClassId, slab: SlabId) -> list[BlockId]:
        """All blocks of a slab."""
        span = self.span(size_class, slab)
        return [BlockId(block) for block in range(span.start, span.stop)]

    def carve(self, size_class: ClassId) -> SlabId:
        """Give an unassigned slab to ``size_class``; the lowest-numbered fresh one first."""
        slab = SlabId(self._unassigned.pop())
        num_blocks = self._blocks_per_slab[size_class]
        self._owner[slab] = size_class
        self._num_free[slab] = self._num_fresh[slab] = num_blocks
        self._free_head[slab] = _NONE
        self._add_partial(size_class, slab)
        self._carved[size_class].add(slab)
        self.num_free_of_class[size_class] += num_blocks
        self._note_change(slab, size_class)
        return slab

    def _note_change(self, slab: SlabId, size_class: ClassId) -> None:
        """Bytes of another class, or nobody's, mean nothing to this one: its blocks are dirty."""
        before = self._last_owner[slab]
        if before == size_class:
            return
        num_blocks = self._blocks_per_slab[size_class]
        first = slab * num_blocks
        self._dirty[size_class][first : first + num_blocks] = b"\x01" * num_blocks
        self._last_owner[slab] = size_class
        if before != _NONE:
            self.num_class_changes[before][size_class] += 1

    def reclaim(self, slab: SlabId) -> None:
        """Take back a slab all of whose blocks are free."""
        owner = ClassId(self._owner[slab])
        num_blocks = self._blocks_per_slab[owner]
        assert self._num_free[slab] == num_blocks, f"slab {slab} still has blocks in use"
        self._owner[slab] = _NONE
        self._num_free[slab] = 0
        self._partial[owner].pop(slab, None)
        self._partial_idle[owner].pop(slab, None)
        self._carved[owner].remove(slab)
        self.num_free_of_class[owner] -= num_blocks
        self._unassigned.append(slab)

    def is_empty(self, slab: SlabId) -> bool:
        """Whether a carved slab has only free blocks."""
        return self._num_free[slab] == self._blocks_per_slab[self._owner[slab]]

    def use(self, size_class: ClassId, slab: SlabId, num_blocks: int) -> None:
        """So many more blocks of a slab are in use."""
        self._num_used[slab] += num_blocks
        if slab in self._partial_idle[size_class]:
            del self._partial_idle[size_class][slab]
            self._add_partial(size_class, slab)

    def unuse(self, size_class: ClassId, slab: SlabId, num_blocks: int) -> None:
        """So many blocks less of a slab are in use."""
        self._num_used[slab] -= num_blocks
        if not self._num_used[slab] and self._num_free[slab]:
            del self._partial[size_class][slab]
            self._partial_idle[size_class][slab] = None

    def pop_free(self, slab: SlabId, most: int) -> list[BlockId]:
        """Take up to ``most`` free blocks out of a slab that has some; the last freed come first.

        From then on the blocks are in use.
        """
        owner = ClassId(self._owner[slab])
        blocks, next_free, block = list[BlockId](), self._next_free[owner], self._free_head[slab]
        for _ in range(most):
            if block == _NONE:
                break
            blocks.append(block)
            block = next_free[block]
        self._free_head[slab] = block
        num_fresh = min(most - len(blocks), self._num_fresh[slab])
        if num_fresh:
            first = (slab + 1) * self._blocks_per_slab[owner] - self._num_fresh[slab]
            blocks += cast("Iterable[BlockId]", range(first, first + num_fresh))
            self._num_fresh[slab] -= num_fresh
        self.use(owner, slab, len(blocks))
        self._num_free[slab] -= len(blocks)
        self.num_free_of_class[owner] -= len(blocks)
        if not self._num_free[slab]:
            del self._partial[owner][slab]
        return blocks

    def pop_unassigned(self, size_class: ClassId, most: int, most_slabs: int) -> list[BlockId]:
        """Carve up to ``most_slabs`` unassigned slabs, one at least, and take blocks out of them.

        Slabs that are taken whole, as most are for a long prompt, never have a free block.
        """
        per_slab = self._blocks_per_slab[size_class]
        most_slabs = min(max(most_slabs, 1), len(self._unassigned))
        num_whole = min(most // per_slab, most_slabs)
        blocks = list[BlockId]()
        for _ in range(num_whole):
            slab = SlabId(self._unassigned.pop())
            self._owner[slab] = size_class
            self._num_used[slab] = per_slab
            self._num_fresh[slab] = 0
            self._free_head[slab] = _NONE
            self._carved[size_class].add(slab)
            if self._last_owner[slab] != size_class:
                self._note_change(slab, size_class)
            first = slab * per_slab
            blocks += cast("Iterable[BlockId]", range(first, first + per_slab))
        if len(blocks) < most and num_whole < most_slabs:
            blocks += self.pop_free(self.carve(size_class), most - len(blocks))
        return blocks

    def push_free(self, size_class: ClassId, blocks: Sequence[BlockId]) -> list[SlabId]:
        """Put blocks back into their slabs' free lists, one after another.

        Returns:
            The slabs, in the order of the last of their blocks.
        """
        next_free, heads = self._next_free[size_class], self._free_head
        counts = self.count_by_slab(size_class, blocks[::-1])
        for slab, num_blocks in counts.items():
            if not self._num_free[slab]:
                if self._num_used[slab]:
                    self._add_partial(size_class, slab)
                else:
                    self._partial_idle[size_class][slab] = None
            self._num_free[slab] += num_blocks
        per_slab = self._blocks_per_slab[size_class]
        for block in blocks:
            slab = SlabId(block // per_slab)
            next_free[block] = heads[slab]
            heads[slab] = block
        self.num_free_of_class[size_class] += len(blocks)
        return list(reversed(counts))

    def _add_partial(self, size_class: ClassId, slab: SlabId) -> None:
        self._partial[size_class][slab] = None
        heapq.heappush(self._lowest[size_class], slab)

    def is_dirty(self, size_class: ClassId, block: BlockId) -> bool:
        """Whether the block's bytes were last of another class (or of nobody)."""
        return self._dirty[size_class][block] != 0

    def dirty_among(self, size_class: ClassId, blocks: Sequence[BlockId]) -> list[BlockId]:
        """Those of ``blocks`` that are dirty, in their order."""
        return list(compress(blocks, map(self._dirty[size_class].__getitem__, blocks)))

    def clean(self, size_class: ClassId, blocks: Iterable[BlockId]) -> None:
        """The blocks were handed to somebody who zeroes or overwrites them."""
        dirty = self._dirty[size_class]
        for block in blocks:
            dirty[block] = 0

    def copy_dirt(self, size_class: ClassId, source: BlockId, target: BlockId) -> None:
        """One block's bytes were copied over another's."""
        self._dirty[size_class][target] = self._dirty[size_class][source]

    def free_blocks(self, slab: SlabId) -> list[BlockId]:
        """Every free block of a carved slab, for audits; O(blocks per slab)."""
        owner = self._owner[slab]
        num_blocks = self._blocks_per_slab[owner]
        fresh = self._num_fresh[slab]
        blocks = [BlockId(slab * num_blocks + i) for i in range(num_blocks - fresh, num_blocks)]
        block = self._free_head[slab]
        while block != _NONE:
            blocks.append(BlockId(block))
            block = self._next_free[owner][block]
        return blocks
