"""Cached content, from what is out of use for the longest time to what fell out of use last.

What has a higher priority (:mod:`kvquarry_core.priorities`) counts as younger than all that has a
lower one.
"""

from collections.abc import Container, Iterable, Iterator, Sequence

from kvquarry_core.contents import Contents
from kvquarry_core.ids import BlockId, ClassId, SlabId
from kvquarry_core.lru import LEVEL_STAMP, OLDEST_STAMP, RecencyList
from kvquarry_core.plan import Plan
from kvquarry_core.priorities import NUM_PRIORITIES
from kvquarry_core.slabs import SlabMap
from kvquarry_core.work import Work


class Cache:
    """Cached blocks, and the slabs that hold nothing else, by age.

    A slab with cached blocks and none in use is *idle*: other classes can have it. Policies read
    here (:class:`~kvquarry_core.eviction.CacheView`) what may go.
    """

    def __init__(self, plan: Plan, slabs: SlabMap, contents: Contents, work: Work) -> None:
        self.work = work
        self._plan = plan
        self._slabs = slabs
        self._contents = contents
        self._clock = 0
        levels = NUM_PRIORITIES
        self._blocks = [RecencyList[BlockId](c.num_blocks, levels) for c in plan.classes]
        self._idle = [RecencyList[SlabId](plan.num_slabs, levels) for _ in plan.classes]

    # As policies see it.

    @property
    def now(self) -> int:
        """The stamp given last."""
        return self._clock

    def by_age(self, size_class: ClassId) -> Iterator[BlockId]:
        """The cached blocks of a class, the one that was not used for the longest time first."""
        return iter(self._blocks[size_class])

    def priority_of(self, size_class: ClassId, block: BlockId) -> int:
        """That of a cached block: 0 unless a request said otherwise, and for what goes first."""
        return self._blocks[size_class].stamp_of(block) // LEVEL_STAMP

    def stamp_of(self, size_class: ClassId, block: BlockId) -> int:
        """When a cached block fell out of use."""
        return self._blocks[size_class].stamp_of(block)

    def idle_slabs(self, size_class: ClassId) -> Iterator[SlabId]:
        """The slabs of a class that hold cached blocks and none in use, the longest idle first."""
        return iter(self._idle[size_class])

    def idle_since(self, size_class: ClassId, slab: SlabId) -> int:
        """When a slab fell idle."""
        return self._idle[size_class].stamp_of(slab)

    def oldest_run(self, size_class: ClassId, most: int) -> list[BlockId]:
        """The oldest cached block and up to ``most`` in all that follow it in the same slab.

        They fell out of use together.
        """
        run = self._blocks[size_class].oldest_together(most)
        return self._slabs.leading_of_one_slab(size_class, run)

    def cached_in(self, size_class: ClassId, slab: SlabId) -> list[BlockId]:
        """The cached blocks of a slab; O(blocks per slab)."""
        cached = self._blocks[size_class]
        return [block for block in self._slabs.blocks_of(size_class, slab) if block in cached]

    def saved_flops_per_byte(self, size_class: ClassId, block: BlockId) -> float:
        """Floating-point operations that need not be done while a cached block is there, by size.

        Those of all that a checkpoint sums up, and of an attention block's own tokens, without
        their attention to earlier ones: its place in the text is not kept.
        """
        depth_tokens = self._contents.depth_tokens(size_class, block)
        if depth_tokens:
            flops = self.work.of_prefix(depth_tokens)
        else:
            flops = self._contents.block_tokens(size_class) * self.work.token_flops
        return flops / self._plan.block_bytes(size_class)

    # As those see it who need memory.

    def num_cached(self, size_class: ClassId) -> int:
        """Blocks nobody references that still hold findable content."""
        return len(self._blocks[size_class])

    def num_cached_of_class(self) -> list[int]:
        """The same for every class."""
        return list(map(len, self._blocks))

    def num_idle_of_class(self) -> list[int]:
        """Slabs of every class that other classes can have."""
        return list(map(len, self._idle))

    def longest_idle(self, size_class: ClassId) -> SlabId | None:
        """The slab of a class that fell idle first, if any is."""
        return self._idle[size_class].oldest()

    def goes_first(self, size_class: ClassId, block: BlockId) -> bool:
        """Whether a cached block is to go before all that somebody will miss."""
        return self.stamp_of(size_class, block) == OLDEST_STAMP

    def slab_goes_first(self, size_class: ClassId, slab: SlabId) -> bool:
        """Whether an idle slab is to go before all that hold something."""
        return self.idle_since(size_class, slab) == OLDEST_STAMP

    def oldest_beside_used(
        self, size_class: ClassId, leaving: Container[SlabId] = ()
    ) -> BlockId | None:
        """The oldest cached block of some slab in use, other than those about to be cleared."""
        slab = self._slabs.mixed(size_class, leaving)
        if slab is None:
            return None
        # Of those that one request released together the last one goes, as the others need not it.
        return min(
            self.cached_in(size_class, slab),
            key=lambda block: (self.stamp_of(size_class, block), -block),
        )

    # As blocks come and go.

    def add(self, size_class: ClassId, blocks: Sequence[BlockId]) -> None:
        """Nobody uses these hashed blocks any more: they are cached, in this order."""
        self._push(size_class, blocks)
        # Each of their slabs holds one that is missed: no need to look at all others.
        self._unuse(size_class, blocks, may_go_first=False)

    def add_oldest(self, size_class: ClassId, blocks: Sequence[BlockId]) -> None:
        """The same for blocks that are to go before all others, the last of them first."""
        self._blocks[size_class].push_all_oldest(blocks)
        self._unuse(size_class, blocks, may_go_first=True)

    def make_oldest(self, size_class: ClassId, block: BlockId) -> bool:
        """A cached block is to go before all others; False for one that is not cached."""
        cached, idle = self._blocks[size_class], self._idle[size_class]
        if block not in cached:
            return False
        cached.remove(block)
        cached.push_oldest(block)
        slab = self._slabs.slab_of(size_class, block)
        if slab in idle and self._goes_first(size_class, slab):
            idle.remove(slab)
            idle.push_oldest(slab)
        return True

    def renew(self, size_class: ClassId, blocks: Iterable[BlockId]) -> None:
        """Those of the blocks that are cached are as if they fell out of use now.

        What is to go first still is.
        """
        cached, idle = self._blocks[size_class], self._idle[size_class]
        renewed = [one for one in blocks if one in cached and cached.stamp_of(one) != OLDEST_STAMP]
        cached.remove_all(renewed)
        self._push(size_class, renewed)
        for slab in reversed(self._slabs.count_by_slab(size_class, renewed[::-1])):
            if slab in idle:
                idle.remove(slab)
                self._push_idle(size_class, slab)

    def take(self, size_class: ClassId, blocks: Sequence[BlockId]) -> None:
        """Somebody uses cached blocks again."""
        self._blocks[size_class].remove_all(blocks)
        for slab, num_blocks in self._slabs.count_by_slab(size_class, blocks).items():
            self._slabs.use(size_class, slab, num_blocks)
            self.wake(size_class, slab)

    def drop(self, size_class: ClassId, blocks: Sequence[BlockId]) -> None:
        """Cached blocks hold nothing any more: they are free, and the first is the next to go."""
        self._blocks[size_class].remove_all(blocks[::-1])
        self.settle(size_class, self._slabs.push_free(size_class, blocks[::-1]))

    def move(self, size_class: ClassId, source: BlockId, target: BlockId) -> None:
        """What a cached block held is in another slab now, one in use, and as old as it was."""
        self._blocks[size_class].rename(source, target)

    def wake(self, size_class: ClassId, slab: SlabId) -> None:
        """A block of a slab is in use: no other class can have it."""
        if slab in self._idle[size_class]:
            self._idle[size_class].remove(slab)

    def settle(
        self, size_class: ClassId, slabs: Iterable[SlabId], *, may_go_first: bool = True
    ) -> None:
        """After blocks of slabs fell free or cached: the slabs may now be idle or empty.

        Without ``may_go_first``, each of them holds content that somebody will miss.
        """
        for slab in slabs:
            if not self._slabs.num_used_in(slab):
                self._settle_unused(size_class, slab, may_go_first=may_go_first)

    def _unuse(self, size_class: ClassId, blocks: Sequence[BlockId], *, may_go_first: bool) -> None:
        """Blocks fell cached, in this order; a slab falls idle with the last of its blocks."""
        counts = self._slabs.count_by_slab(size_class, blocks[::-1])
        for slab, num_blocks in counts.items():
            self._slabs.unuse(size_class, slab, num_blocks)
        self.settle(size_class, reversed(counts), may_go_first=may_go_first)

    def _settle_unused(self, size_class: ClassId, slab: SlabId, *, may_go_first: bool) -> None:
        idle = self._idle[size_class]
        if self._slabs.is_empty(slab):
            if slab in idle:
                idle.remove(slab)
            self._slabs.reclaim(slab)
        elif slab not in idle:
            if may_go_first and self._goes_first(size_class, slab):
                idle.push_oldest(slab)
            else:
                self._push_idle(size_class, slab)

    def _push(self, size_class: ClassId, blocks: Sequence[BlockId]) -> None:
        """Blocks are the youngest of their priorities, in this order."""
        for priority, run in self._contents.priorities.runs(size_class, blocks):
            self._clock += 1
            self._blocks[size_class].push_all(run, self._clock, priority)

    def _push_idle(self, size_class: ClassId, slab: SlabId) -> None:
        """A slab is the youngest of its priority."""
        self._clock += 1
        priority = self._contents.priorities.of_slab(slab)
        self._idle[size_class].push(slab, self._clock, priority)

    def _goes_first(self, size_class: ClassId, slab: SlabId) -> bool:
        """Whether an idle slab holds nothing that anybody will miss."""
        return self._blocks[size_class].go_first(self._slabs.span(size_class, slab))
