"""Carrying out what an evacuation says: blocks move to holes in slabs in use.

::

    used blocks     move first; where no hole is left, the oldest cached block beside used ones
                    makes one
    cached blocks   move to the holes that are left, the youngest first
    what is left    is evicted

Holes in idle slabs stay: another class can have such a slab, and what had moved there would be
lost with it. No block is where another one comes from and where one goes to: slabs that are cleared
take nothing in.
"""

from collections.abc import Iterator, Sequence, Set
from itertools import chain

from kvquarry_core.block_store import BlockStore
from kvquarry_core.ids import BlockId, ClassId, SlabId


class Clearing:
    """The slabs of one class that are cleared together.

    Attributes:
        moved: Where its blocks went.
    """

    def __init__(
        self,
        store: BlockStore,
        size_class: ClassId,
        slabs: Sequence[SlabId],
        shut: Set[SlabId],
    ) -> None:
        """``shut`` are slabs that nothing may move to, these among them."""
        self.moved: dict[BlockId, BlockId] = {}
        self._store = store
        self._size_class = size_class
        self._leaving = slabs
        self._shut = shut
        self._holes = self._holes_in_use()

    def move_used(self) -> None:
        """Move what somebody uses; there must be holes for it, free or cached."""
        slabs, size_class = self._store.slabs, self._size_class
        for slab in self._leaving:
            unused = {*slabs.free_blocks(slab), *self._store.cache.cached_in(size_class, slab)}
            for source in slabs.blocks_of(size_class, slab):
                if source not in unused:
                    hole = self._hole_for_used()
                    self.moved[source] = self._store.move(size_class, source, hole)

    def move_cached(self, most_blocks: int, num_wanted: int) -> int:
        """Move what is cached, and evict what finds no hole.

        What goes first anyhow is not worth a copy. A row moves as a whole or not at all.

        Args:
            most_blocks: How many may be moved.
            num_wanted: Free blocks that are wanted for other things.

        Returns:
            How many moved.
        """
        store, size_class = self._store, self._size_class
        cached = self._youngest_first()
        num_before = len(self.moved)
        open_slabs = (one for one in store.slabs.partial(size_class) if one not in self._shut)
        num_holes = sum(map(store.slabs.num_free_in, open_slabs))
        num_left = min(most_blocks, num_holes - num_wanted)
        lost: list[BlockId] = []
        holes = chain(self._holes, self._holes_in_use())
        for row in self._rows(cached):
            if len(row) > num_left or store.cache.goes_first(size_class, row[0]):
                lost += row
                continue
            num_left -= len(row)
            for source in row:
                self.moved[source] = store.move_cached(size_class, source, next(holes))
        store.evict(size_class, lost)
        return len(self.moved) - num_before

    def _youngest_first(self) -> list[BlockId]:
        """The cached blocks; of those that fell out of use together the first is the youngest."""
        cache, size_class = self._store.cache, self._size_class
        cached = [block for slab in self._leaving for block in cache.cached_in(size_class, slab)]
        stamps = {block: cache.stamp_of(size_class, block) for block in cached}
        return sorted(cached, key=lambda block: (-stamps[block], block))

    def _rows(self, cached: Sequence[BlockId]) -> Iterator[Sequence[BlockId]]:
        """Those of each row's blocks that are among ``cached``, in their order."""
        seen: set[BlockId] = set()
        those: Set[BlockId] = set(cached)
        for block in cached:
            if block not in seen:
                commitment = self._store.contents.commitment(self._size_class, block)
                assert commitment is not None, f"cached block {block} has no hash"
                row = [block, *(one for one in commitment.row if one in those and one != block)]
                seen.update(row)
                yield row

    # Holes.

    def _hole_for_used(self) -> SlabId:
        """A slab in use with a free block, made by evicting one if need be."""
        slab = next(self._holes, None)
        if slab is None:
            # Rows that were evicted may have left holes in slabs that were full.
            self._holes = self._holes_in_use()
            slab = next(self._holes, None)
        if slab is None:
            store, size_class = self._store, self._size_class
            victim = store.cache.oldest_beside_used(size_class, self._shut)
            assert victim is not None, f"class {size_class} has no hole for a used block"
            store.evict(size_class, (victim,))
            slab = store.slabs.slab_of(size_class, victim)
        return slab

    def _holes_in_use(self) -> Iterator[SlabId]:
        """The lowest slab first; each as long as it has a free block."""
        return self._each_hole(sorted(self._store.slabs.partial(self._size_class)))

    def _each_hole(self, slabs: Sequence[SlabId]) -> Iterator[SlabId]:
        for slab in slabs:
            while slab not in self._shut and self._store.slabs.num_free_in(slab):
                yield slab
