"""Every block of a pool: free, granted, referenced or cached.

Where it lies is the :class:`SlabMap`'s, what it holds the :class:`Contents`', and how long it has
been out of use the :class:`Cache`'s; here they are kept in step.

::

            grant              spend                  release, no hash
      free --------> granted --------> referenced --------------------> free
       ^                |                |    ^
       |   give back    |      release,  |    |  touch
       +----------------+    with a hash v    |
                                        cached -----------------------> free
                                                        forget
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from operator import add, sub

from kvquarry_core.cache import Cache
from kvquarry_core.contents import Contents
from kvquarry_core.ids import BlockId, ClassId, KindId, SlabId
from kvquarry_core.luxury import FreeMemory
from kvquarry_core.observer import PoolObserver
from kvquarry_core.plan import Plan
from kvquarry_core.prefix_index import PrefixIndex
from kvquarry_core.room import Room
from kvquarry_core.sessions import Sessions
from kvquarry_core.slabs import SlabMap
from kvquarry_core.work import Work

# What is forgotten at a time, when others wait: half a millisecond of work or so.
_MANY_ROWS = 256


class BlockStore:
    """Takes every block from one state to the next."""

    def __init__(self, plan: Plan, observer: PoolObserver, work: Work) -> None:
        self.plan = plan
        self.slabs = SlabMap(plan)
        self.index = PrefixIndex(len(plan.kinds))
        self.contents = Contents(plan, self.index)
        self.cache = Cache(plan, self.slabs, self.contents, work)
        self.sessions = Sessions(len(plan.classes))
        #: By size class, as all that follow: blocks granted now, evicted and moved so far.
        self.num_granted = [0] * len(plan.classes)
        self.num_evictions = [0] * len(plan.classes)
        self.num_moves = [0] * len(plan.classes)
        self._observer = observer
        self._class_ids = [ClassId(index) for index in range(len(plan.classes))]
        # Lists: their items are read and written in a third of the time of an array's. They cost
        # eight bytes each, since counts are small.
        self._refs = [[0] * c.num_blocks for c in plan.classes]
        self._reserve_null_blocks()

    # What is there.

    def num_references(self, size_class: ClassId, block: BlockId) -> int:
        """How often a block is referenced; 0 means free, cached or granted."""
        return self._refs[size_class][block]

    def num_own(self) -> list[int]:
        """Blocks of every class to be had without taking a slab from anybody: free and cached."""
        return list(map(add, self.slabs.num_free_of_class, self.cache.num_cached_of_class()))

    def num_available(self) -> list[int]:
        """Blocks of every class to be had without taking a slab from another class."""
        num_unassigned = self.slabs.num_unassigned
        return [
            own + num_unassigned * size_class.blocks_per_slab
            for own, size_class in zip(self.num_own(), self.plan.classes, strict=True)
        ]

    def free_memory(self) -> FreeMemory:
        """What nobody uses: blocks that hold nothing, and content that could be evicted."""
        slabs = self.slabs
        free, cached = list(slabs.num_free_of_class), self.cache.num_cached_of_class()
        return FreeMemory(free, slabs.num_unassigned, cached)

    def room(self, touched: Sequence[set[BlockId]] = ()) -> Room:
        """What could be handed out, once ``touched`` blocks, by class, are referenced."""
        slabs, own, idle = self.slabs, self.num_own(), self.cache.num_idle_of_class()
        for size_class, blocks in zip(self._class_ids, touched, strict=False):
            cached = [block for block in blocks if not self._refs[size_class][block]]
            theirs = {slabs.slab_of(size_class, block) for block in cached}
            own[size_class] -= len(cached)
            idle[size_class] -= sum(not slabs.num_used_in(slab) for slab in theirs)
        return Room(self.plan, own, idle, slabs.num_unassigned)

    def room_at_worst(self, num_touched: Sequence[int]) -> Room:
        """The same as if each touched block were the only cached one of an idle slab."""
        own = list(map(sub, self.num_own(), num_touched))
        idle = map(sub, self.cache.num_idle_of_class(), num_touched)
        return Room(self.plan, own, [max(num, 0) for num in idle], self.slabs.num_unassigned)

    # Granted blocks.

    def grant(self, size_class: ClassId, slab: SlabId, most: int) -> list[BlockId]:
        """Take up to ``most`` free blocks out of a slab that has some."""
        blocks = self.slabs.pop_free(slab, most)
        self.cache.wake(size_class, slab)
        self.num_granted[size_class] += len(blocks)
        return blocks

    def grant_new(self, size_class: ClassId, most: int, most_slabs: int) -> list[BlockId]:
        """Take up to ``most`` blocks of unassigned slabs, of which there are some."""
        blocks = self.slabs.pop_unassigned(size_class, most, most_slabs)
        self.num_granted[size_class] += len(blocks)
        return blocks

    def spend(
        self, size_class: ClassId, blocks: Sequence[BlockId], *, may_be_dirty: bool = True
    ) -> None:
        """Granted blocks become a request's own; whoever spends them zeroes the dirty ones."""
        refs = self._refs[size_class]
        for block in blocks:
            refs[block] = 1
        if may_be_dirty:
            self.slabs.clean(size_class, blocks)
        self.num_granted[size_class] -= len(blocks)

    def give_back(self, size_class: ClassId, blocks: Sequence[BlockId]) -> None:
        """Granted blocks were not spent."""
        self._free(size_class, blocks)
        self.num_granted[size_class] -= len(blocks)

    # References.

    def touch(self, size_class: ClassId, blocks: Sequence[BlockId]) -> None:
        """Reference blocks that were found through their hashes."""
        refs = self._refs[size_class]
        if any(map(refs.__getitem__, blocks)) or len(set(blocks)) < len(blocks):
            blocks = self._touch_each(refs, blocks)
        else:
            for block in blocks:
                refs[block] = 1
        self.cache.take(size_class, blocks)

    def release(self, size_class: ClassId, blocks: Sequence[BlockId], priority: int = 0) -> None:
        """Give up one reference to each; the last one makes a block cached or free.

        Args:
            size_class: Whose blocks.
            blocks: The first of them is evicted first.
            priority: That of whoever used them.
        """
        if priority:
            self.contents.raise_priority(priority, size_class, blocks)
        if self.sessions.outgrown[size_class]:
            blocks = self._release_outgrown(size_class, blocks)
        unused = self._unreference(size_class, blocks)
        # Runs of blocks with a hash and of those without, in the order given.
        hashes = self.contents.hashes(size_class)
        if all(map(hashes.__getitem__, unused)):
            self.cache.add(size_class, unused)
            return
        for is_hashed, run in groupby(unused, key=lambda block: hashes[block] is not None):
            if is_hashed:
                self.cache.add(size_class, list(run))
            else:
                self._free(size_class, list(run))

    def release_to_go_first(self, size_class: ClassId, blocks: Sequence[BlockId]) -> None:
        """The same for blocks that nobody will miss: they are evicted before all others.

        The last of them goes first. So does a slab of which such blocks are all that is left.
        """
        hashes = self.contents.hashes(size_class)
        falling: list[BlockId] = []
        free: list[BlockId] = []
        for block in self._unreference(size_class, blocks):
            (free if hashes[block] is None else falling).append(block)
        self.sessions.outgrown[size_class].difference_update(falling)
        self.cache.add_oldest(size_class, falling)
        self._free(size_class, free)

    def let_go_first(self, size_class: ClassId, row: Iterable[BlockId]) -> None:
        """Nobody will miss a checkpoint: it is evicted first once nobody uses it."""
        for block in row:
            if not self.cache.make_oldest(size_class, block):
                self.sessions.outgrown[size_class].add(block)

    # What nobody references.

    def forget(self, size_class: ClassId, blocks: Iterable[BlockId]) -> int:
        """Drop the hashes of blocks, each with its row; those that are cached become free.

        No member of a row is left an orphan.

        Returns:
            How many blocks lost their hash.
        """
        refs, num_forgotten = self._refs[size_class], 0
        for rows in self.contents.forget(size_class, blocks):
            self.sessions.forget(size_class, rows.blocks)
            self.cache.drop(size_class, [block for block in rows.blocks if not refs[block]])
            self._observer.forgotten(rows)
            num_forgotten += len(rows.blocks)
        return num_forgotten

    def forget_all(self) -> Iterator[None]:
        """Drop all hashes, and yield after every few hundred rows of them."""
        for kind in map(KindId, range(len(self.plan.kinds))):
            firsts, size_class = self.index.firsts(kind), self.plan.class_of_kind(kind)
            for start in range(0, len(firsts), _MANY_ROWS):
                self.forget(size_class, firsts[start : start + _MANY_ROWS])
                yield

    def evict(self, size_class: ClassId, blocks: Iterable[BlockId]) -> None:
        """Evict cached blocks, each with its row."""
        self.num_evictions[size_class] += self.forget(size_class, blocks)

    def clear_slab(self, slab: SlabId) -> None:
        """Evict every cached block of an idle slab, which makes it unassigned."""
        owner = self.slabs.owner(slab)
        assert owner is not None, f"slab {slab} belongs to nobody"
        self.evict(owner, self.cache.cached_in(owner, slab))

    # What is there is elsewhere, see :mod:`kvquarry_core.clearing`.

    def move(self, size_class: ClassId, source: BlockId, hole: SlabId) -> BlockId:
        """Move what a used block is to a free block of another slab; the source becomes free."""
        [target] = self.slabs.pop_free(hole, 1)
        self._take_along(size_class, source, target)
        refs = self._refs[size_class]
        refs[target], refs[source] = refs[source], 0
        self._free(size_class, (source,))
        return target

    def move_cached(self, size_class: ClassId, source: BlockId, hole: SlabId) -> BlockId:
        """The same for a cached block, which keeps its place in the order."""
        [target] = self.slabs.pop_free(hole, 1)
        self.slabs.unuse(size_class, hole, 1)
        self._take_along(size_class, source, target)
        self.cache.move(size_class, source, target)
        self.cache.settle(size_class, self.slabs.push_free(size_class, (source,)))
        return target

    def _take_along(self, size_class: ClassId, source: BlockId, target: BlockId) -> None:
        """What is known of a block's content is so of another one's."""
        self.num_moves[size_class] += 1
        self.contents.move(size_class, source, target)
        self.sessions.rename(size_class, source, target)
        self.slabs.copy_dirt(size_class, source, target)

    def _touch_each(self, refs: list[int], blocks: Sequence[BlockId]) -> list[BlockId]:
        """Add a reference to each, one by one; those that had none are returned."""
        cached = []
        for block in blocks:
            if not refs[block]:
                cached.append(block)
            refs[block] += 1
        return cached

    def _unreference(self, size_class: ClassId, blocks: Sequence[BlockId]) -> Sequence[BlockId]:
        """Give up one reference to each; those whose last one it was are returned."""
        refs = self._refs[size_class]
        if set(map(refs.__getitem__, blocks)) == {1}:
            for block in blocks:
                refs[block] = 0
            return blocks
        unused = []
        for block in blocks:
            assert refs[block], f"block {block} of class {size_class} released once too often"
            refs[block] -= 1
            if not refs[block]:
                unused.append(block)
        return unused

    def _release_outgrown(self, size_class: ClassId, blocks: Sequence[BlockId]) -> list[BlockId]:
        """Release those blocks that go first; the others are returned."""
        outgrown = self.sessions.outgrown[size_class]
        going = [block for block in blocks if block in outgrown]
        rest = [block for block in blocks if block not in outgrown]
        self.release_to_go_first(size_class, going)
        return rest

    def _free(self, size_class: ClassId, blocks: Sequence[BlockId]) -> None:
        """Nobody uses these blocks any more, and they hold nothing."""
        for slab, num_blocks in self.slabs.count_by_slab(size_class, blocks).items():
            self.slabs.unuse(size_class, slab, num_blocks)
        self.cache.settle(size_class, self.slabs.push_free(size_class, blocks))

    def _reserve_null_blocks(self) -> None:
        """Slab 0 belongs to the smallest class for ever; the null blocks lie in it."""
        smallest = self._class_ids[0]
        slab = self.slabs.carve(smallest)
        for block in self.slabs.pop_free(slab, self.plan.num_reserved_blocks):
            self._refs[smallest][block] = 1
