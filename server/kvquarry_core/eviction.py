"""What is evicted when memory is short: the policy that chooses among cached content.

Whatever a policy chooses, the accounting stays right: rows go together, and a slab that somebody
was promised is not offered. A policy only decides which content is missed least.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Protocol

from kvquarry_core.ids import BlockId, ClassId, SlabId


class CacheView(Protocol):
    """Cached content as a policy sees it; nothing here changes anything.

    Ages are stamps: whatever fell out of use later has the larger one. What has a higher priority
    counts as younger than all that has a lower one (:mod:`kvquarry_core.priorities`).
    """

    @property
    def now(self) -> int:
        """The stamp given last."""
        ...

    def by_age(self, size_class: ClassId) -> Iterator[BlockId]:
        """The cached blocks of a class, the oldest first: that with the smallest stamp."""
        ...

    def priority_of(self, size_class: ClassId, block: BlockId) -> int:
        """That of a cached block: 0 unless a request said otherwise, and for what goes first."""
        ...

    def stamp_of(self, size_class: ClassId, block: BlockId) -> int:
        """When a cached block fell out of use, in the age of its priority."""
        ...

    def idle_slabs(self, size_class: ClassId) -> Iterator[SlabId]:
        """The slabs of a class that hold cached content alone, the one with the oldest age first.

        A slab has the highest priority of its blocks.
        """
        ...

    def idle_since(self, size_class: ClassId, slab: SlabId) -> int:
        """When a slab fell idle, in the age of its priority: nothing in it was used since."""
        ...

    def oldest_run(self, size_class: ClassId, most: int) -> list[BlockId]:
        """The oldest cached block and up to ``most`` in all that follow it in the same slab.

        All of them fell out of use together. Called where there is one; O(length of the run).
        """
        ...

    def cached_in(self, size_class: ClassId, slab: SlabId) -> list[BlockId]:
        """The cached blocks of a slab; O(blocks per slab)."""
        ...

    def saved_flops_per_byte(self, size_class: ClassId, block: BlockId) -> float:
        """Floating-point operations that need not be done while a cached block is there, by size.

        A checkpoint saves the work of all it sums up, attention to every earlier token included.
        An attention block, whose place in its text is not kept, counts for the work of its tokens
        without their attention. Where the pool was not told its model's work
        (:class:`~kvquarry_core.work.Work`), tokens stand for it.
        """
        ...


class Eviction(Protocol):
    """Chooses what goes. Called when no block is to be had otherwise."""

    def victims(self, cache: CacheView, size_class: ClassId, most: int) -> Sequence[BlockId]:
        """The cached blocks of a class to evict next, together; their rows go with them.

        Called where there are some. What goes leaves none behind that has a lower priority.

        Args:
            cache: What there is.
            size_class: The class a block is wanted of.
            most: How many blocks are wanted. Fewer are as good, since this is called again; more
                go where a policy sees a sense in it. The first is taken at once.
        """
        ...

    def block_worth(self, cache: CacheView, size_class: ClassId, block: BlockId) -> float:
        """What keeping a block is worth, to compare with :meth:`slab_worth`: the least goes."""
        ...

    def slab_worth(self, cache: CacheView, size_class: ClassId, slab: SlabId) -> float:
        """What keeping all of an idle slab is worth."""
        ...


class Lru:
    """What was not used for the longest time goes first."""

    def victims(self, cache: CacheView, size_class: ClassId, most: int) -> Sequence[BlockId]:
        """See :meth:`Eviction.victims`."""
        return cache.oldest_run(size_class, most)

    def block_worth(self, cache: CacheView, size_class: ClassId, block: BlockId) -> float:
        """See :meth:`Eviction.block_worth`."""
        return cache.stamp_of(size_class, block)

    def slab_worth(self, cache: CacheView, size_class: ClassId, slab: SlabId) -> float:
        """See :meth:`Eviction.slab_worth`."""
        return cache.idle_since(size_class, slab)


class SlabAware(Lru):
    """The longest idle slab goes as a whole, so that what is used next lies together.

    Evicting block by block hands out single blocks of many slabs; each of them then keeps its slab
    from the other classes.
    """

    def victims(self, cache: CacheView, size_class: ClassId, most: int) -> Sequence[BlockId]:
        """See :meth:`Eviction.victims`."""
        slab = next(cache.idle_slabs(size_class), None)
        blocks = () if slab is None else cache.cached_in(size_class, slab)
        oldest = super().victims(cache, size_class, most)
        lowest = cache.priority_of(size_class, oldest[0])
        if not blocks or any(cache.priority_of(size_class, block) > lowest for block in blocks):
            return oldest
        return blocks


class SavedWork(Lru):
    """Recency and the work a block saves, by its size.

    Among the oldest blocks the one goes whose loss costs least. A checkpoint deep in a long prompt
    saves the work of thousands of tokens, one at its head that of a few, and both have the same
    size; as attention meets all earlier tokens, the deep one saves even more than its tokens say.
    Source: Marconi (arXiv 2411.19379), which weighs recency against floating-point operations
    saved per byte.

    Attention blocks count alike, so among them recency decides. A deeper one saves more by its own,
    but nothing without all before it: a prefix must go from its tail to its head. So of two blocks
    the older goes first if it lies deeper, since the younger may be part of its prefix; and if it
    lies no deeper, since it is older and saves no more. That is the order of age, whatever the
    places are. It goes from tail to head, as that is how a request's blocks fall out of use.
    """

    #: Blocks that are looked at; the rest are too young to go.
    _NUM_CANDIDATES = 32
    #: How much saved work counts beside recency; both run from 0 to 1 among the candidates.
    _WEIGHT = 1.0

    def victims(self, cache: CacheView, size_class: ClassId, most: int) -> Sequence[BlockId]:
        """See :meth:`Eviction.victims`.

        One at a time, each weighed against those that are left, unless all save alike.
        """
        oldest = list(islice(cache.by_age(size_class), self._NUM_CANDIDATES))
        lowest = cache.priority_of(size_class, oldest[0])
        candidates = [one for one in oldest if cache.priority_of(size_class, one) == lowest]
        saved = [cache.saved_flops_per_byte(size_class, block) for block in candidates]
        most_saved = max(saved)
        if min(saved) == most_saved:
            return super().victims(cache, size_class, min(most, len(candidates)))
        worths = [
            age / len(candidates) + self._WEIGHT * saves / most_saved
            for age, saves in enumerate(saved)
        ]
        return (candidates[worths.index(min(worths))],)


class Superseding(Lru):
    """The same, but a checkpoint that its session outgrew goes first once nobody uses it.

    That is one that served a single request, which left a deeper one, see
    :mod:`kvquarry_core.sessions`. The pool puts such checkpoints at the old end of the order, for
    this policy and those that derive from it.
    """


#: The evictions on offer by name.
EVICTIONS: dict[str, Callable[[], Eviction]] = {
    "lru": Lru,
    "slab-aware": SlabAware,
    "saved-work": SavedWork,
    "session": Superseding,
}
