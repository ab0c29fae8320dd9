"""Which content its requests want to be kept for longer than other content.

A request has a priority, 0 unless it says otherwise, and what it leaves behind is evicted after all
that has a lower one. A block that several requests used has the highest priority of any of them,
until its content is evicted. A slab nobody uses is worth as much as its most wanted block::

    evicted first                                                        evicted last
    |-- priority 0, oldest ... newest --|-- priority 1, oldest ... newest --|-- 2 ...

Only what has a priority above 0 is noted, so pools without any pay nothing.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from kvquarry_core.ids import BlockId, ClassId, SlabId
from kvquarry_core.plan import Plan

#: Priorities run from 0, the default, to one less than this.
NUM_PRIORITIES = 4


class Priorities:
    """The priority of every block whose content has one."""

    def __init__(self, plan: Plan) -> None:
        #: Priorities above 0 by block, for each size class; every one of these blocks has a hash.
        self.of_class: list[dict[BlockId, int]] = [{} for _ in plan.classes]
        self._blocks_per_slab = [size_class.blocks_per_slab for size_class in plan.classes]
        # How many blocks of each priority a slab holds.
        self._counts: dict[SlabId, list[int]] = {}

    def of_block(self, size_class: ClassId, block: BlockId) -> int:
        """The priority of a block's content."""
        return self.of_class[size_class].get(block, 0)

    def of_slab(self, slab: SlabId) -> int:
        """The highest priority of any content in a slab."""
        counts = self._counts.get(slab)
        if counts is None:
            return 0
        return max(priority for priority, num_blocks in enumerate(counts) if num_blocks)

    def slabs(self) -> Iterator[SlabId]:
        """The slabs with content of a priority above 0."""
        return iter(self._counts)

    def runs(
        self, size_class: ClassId, blocks: Sequence[BlockId]
    ) -> Iterable[tuple[int, Sequence[BlockId]]]:
        """Neighbours of one priority, with that priority, in order."""
        noted = self.of_class[size_class]
        if not noted:
            return ((0, blocks),)
        runs = groupby(blocks, key=lambda block: noted.get(block, 0))
        return ((priority, list(run)) for priority, run in runs)

    def raise_to(self, priority: int, size_class: ClassId, blocks: Iterable[BlockId]) -> None:
        """Some content was used by a request of this priority; a higher one stays."""
        noted = self.of_class[size_class]
        for block in blocks:
            before = noted.get(block, 0)
            if priority > before:
                noted[block] = priority
                self._count(size_class, block, before, -1)
                self._count(size_class, block, priority, 1)

    def forget(self, size_class: ClassId, blocks: Iterable[BlockId]) -> None:
        """Some blocks hold no content any more."""
        noted = self.of_class[size_class]
        for block in blocks if noted else ():
            self._count(size_class, block, noted.pop(block, 0), -1)

    def move(self, size_class: ClassId, source: BlockId, target: BlockId) -> None:
        """A block's content is in another block now."""
        priority = self.of_block(size_class, source)
        self.forget(size_class, (source,))
        self.raise_to(priority, size_class, (target,))

    def _count(self, size_class: ClassId, block: BlockId, priority: int, num_blocks: int) -> None:
        if not priority:
            return
        slab = SlabId(block // self._blocks_per_slab[size_class])
        counts = self._counts.setdefault(slab, [0] * NUM_PRIORITIES)
        counts[priority] += num_blocks
        if not any(counts):
            del self._counts[slab]
