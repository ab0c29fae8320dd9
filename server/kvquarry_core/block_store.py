"""Every block of a pool: free, cached or referenced; and who has to go when memory is short.

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

from kvquarry_core.demand import Demand
from kvquarry_core.errors import BrokenLaw
from kvquarry_core.ids import BlockHash, BlockId, ClassId, KindId, SlabId
from kvquarry_core.lru import RecencyList
from kvquarry_core.observer import PoolObserver
from kvquarry_core.placement import Placement
from kvquarry_core.plan import Plan
from kvquarry_core.prefix_index import Commitment, PrefixIndex
from kvquarry_core.slabs import SlabMap


class BlockStore:
    """Reference counts, recency and hashes of all blocks, over a :class:`SlabMap`."""

    def __init__(self, plan: Plan, placement: Placement, observer: PoolObserver) -> None:
        self.plan = plan
        self.slabs = SlabMap(plan)
        self.index = PrefixIndex(len(plan.kinds))
        self.num_evictions = [0] * len(plan.classes)
        self._placement = placement
        self._observer = observer
        self._class_ids = [ClassId(index) for index in range(len(plan.classes))]
        self._clock = 0
        self._kinds_of_class: list[list[KindId]] = [[] for _ in plan.classes]
        for kind in map(KindId, range(len(plan.kinds))):
            self._kinds_of_class[plan.class_of_kind(kind)].append(kind)
        # Lists: their items are read and written in a third of the time of an array's. They cost
        # eight bytes each, since counts are small and the hashes are those of the index.
        self._refs = [[0] * c.num_blocks for c in plan.classes]
        self._hashes: list[list[BlockHash | None]] = [[None] * c.num_blocks for c in plan.classes]
        self._cached = [RecencyList(c.num_blocks) for c in plan.classes]
        # Slabs without a referenced block but with cached ones, by the time they fell idle.
        self._idle = [RecencyList(plan.num_slabs) for _ in plan.classes]
        self._reserve_null_blocks()

    # What is there.

    def num_references(self, size_class: ClassId, block: BlockId) -> int:
        """How often a block is referenced; 0 means free, cached or granted."""
        return self._refs[size_class][block]

    def num_cached(self, size_class: ClassId) -> int:
        """Blocks nobody references that still hold findable content."""
        return len(self._cached[size_class])

    def num_own(self, size_class: ClassId) -> int:
        """Blocks to be had without taking a slab from anybody: free and cached ones."""
        return self.slabs.num_free(size_class) + len(self._cached[size_class])

    def num_available(self, size_class: ClassId) -> int:
        """Blocks to be had without taking a slab from another class."""
        per_slab = self.plan.classes[size_class].blocks_per_slab
        return self.num_own(size_class) + self.slabs.num_unassigned * per_slab

    def is_hashed(self, size_class: ClassId, block: BlockId) -> bool:
        """Whether a block is findable."""
        return self._hashes[size_class][block] is not None

    def commitment(self, size_class: ClassId, block: BlockId) -> Commitment | None:
        """What a block is findable under, if anything."""
        block_hash = self._hashes[size_class][block]
        if block_hash is None:
            return None
        for kind in self._kinds_of_class[size_class]:
            row = self.index.row_with(kind, block_hash, block)
            if row is not None:
                return Commitment(kind, block_hash, row)
        raise BrokenLaw(f"block {block} of class {size_class} is hashed but not indexed")

    def cached_blocks(self, size_class: ClassId) -> Iterator[BlockId]:
        """The cached blocks of a class, the next victim first."""
        return (BlockId(block) for block in self._cached[size_class])

    def idle_slabs(self, size_class: ClassId) -> Iterator[SlabId]:
        """The slabs of a class that hold cached blocks and no referenced one."""
        return (SlabId(slab) for slab in self._idle[size_class])

    # References.

    def touch(self, size_class: ClassId, blocks: Iterable[BlockId]) -> None:
        """Reference blocks that were found through their hashes."""
        refs, cached = self._refs[size_class], []
        for block in blocks:
            count = refs[block]
            refs[block] = count + 1
            if not count:
                cached.append(block)
        self._cached[size_class].remove_all(cached)
        for slab, num_blocks in self.slabs.count_by_slab(size_class, cached).items():
            self.slabs.use(size_class, slab, num_blocks)
            self._busy(size_class, slab)

    def release(self, size_class: ClassId, blocks: Iterable[BlockId]) -> None:
        """Give up one reference to each; the last one makes a block cached or free."""
        refs, hashes = self._refs[size_class], self._hashes[size_class]
        falling: list[BlockId] = []
        for block in blocks:
            count = refs[block] - 1
            assert count >= 0, f"block {block} of class {size_class} released once too often"
            refs[block] = count
            if count:
                continue
            if hashes[block] is not None:
                falling.append(block)
            else:
                self._let_fall(size_class, falling)
                falling.clear()
                self.give_back(size_class, (block,))
        self._let_fall(size_class, falling)

    # Hashes.

    def commit(self, kind: KindId, hashes: Sequence[BlockHash], blocks: Sequence[BlockId]) -> None:
        """Make referenced rows, one after another in ``blocks``, findable."""
        hash_of, width = self._hashes[self.plan.class_of_kind(kind)], len(self.plan.kinds[kind])
        for member in range(width):
            for block_hash, block in zip(hashes, blocks[member::width], strict=True):
                hash_of[block] = block_hash
        self.index.insert(kind, hashes, blocks)

    def forget(self, commitment: Commitment) -> None:
        """Drop a row's hash; its cached blocks become free. No member is left an orphan."""
        size_class = self.plan.class_of_kind(commitment.kind)
        self.index.remove(commitment)
        for block in commitment.row:
            self._hashes[size_class][block] = None
            if not self._refs[size_class][block]:
                self._cached[size_class].remove(block)
                self._push_free(size_class, block)
        self._observer.forgotten(commitment)

    # Taking blocks.

    def fits(self, demand: Sequence[int], touched: Sequence[set[BlockId]]) -> bool:
        """Whether ``demand[c]`` blocks of every class ``c`` can be had at once.

        Args:
            demand: Blocks wanted, by class.
            touched: Blocks that will be referenced first, by class, so that neither they nor
                their slabs can be evicted for the demand.
        """
        own, idle = self._after_touching(touched)
        return self._num_spare_slabs(demand, own, idle) >= 0

    def secure(self, demand: Demand) -> None:
        """Gather enough slabs that every class can serve its demand out of its own.

        Call only when :meth:`fits` said yes, and before the first :meth:`grant` of the demand.
        Clearing a slab may empty others by the way, where rows span them: then the class that
        counted on those is short in its turn, and a slab is there for it.
        """
        short = self._shortest(demand.now)
        while short is not None:
            if not self.slabs.num_unassigned:
                slab = self._spare_slab(short, demand)
                assert slab is not None, f"fits() promised a slab for class {short}"
                self._clear_slab(slab)
            self.slabs.carve(short)
            short = self._shortest(demand.now)

    def grant(
        self, size_class: ClassId, num_blocks: int, near: SlabId | None, demand: Demand
    ) -> list[BlockId]:
        """Take blocks off the free ones; ``demand`` is what is still wanted and shrinks.

        Never fails after :meth:`secure`, and what was promised beyond the demand still fits
        afterwards.
        """
        granted: list[BlockId] = []
        while len(granted) < num_blocks:
            slab = self._placement.choose(self.slabs, size_class, near)
            if slab is None:
                slab = self._make_room(size_class, demand)
            blocks = self.slabs.pop_free(slab, num_blocks - len(granted))
            self._busy(size_class, slab)
            demand.shrink(size_class, len(blocks))
            granted += blocks
            near = slab
        return granted

    def spend(self, size_class: ClassId, blocks: Iterable[BlockId]) -> None:
        """Granted blocks become a request's own; whoever spends them zeroes the dirty ones."""
        refs = self._refs[size_class]
        for block in blocks:
            refs[block] = 1
        self.slabs.clean(size_class, blocks)

    def give_back(self, size_class: ClassId, blocks: Iterable[BlockId]) -> None:
        """Granted blocks were not spent."""
        for block in blocks:
            self.slabs.unuse(size_class, self.slabs.slab_of(size_class, block), 1)
            self._push_free(size_class, block)

    def _shortest(self, demand: Sequence[int]) -> ClassId | None:
        """A class that cannot serve its demand out of its own, if there is one."""
        for size_class in self._class_ids:
            if self.num_own(size_class) < demand[size_class]:
                return size_class
        return None

    def _make_room(self, size_class: ClassId, demand: Demand) -> SlabId:
        """A slab of the class with a free block, though none in use has one.

        Whichever costs least: a free block beside cached content, an unassigned slab, or what has
        not been used for the longest time. A way that takes a slab which somebody was promised is
        left out.
        """
        own = [self.num_own(one) for one in self._class_ids]
        idle = [len(slabs) for slabs in self._idle]
        spare = self._num_spare_slabs(demand.promised, own, idle)
        surplus = own[size_class] - demand.promised[size_class]
        per_slab = self.plan.classes[size_class].blocks_per_slab
        may_use_idle = spare > 0 or idle[size_class] > surplus // per_slab
        may_add_slab = spare > 0 or surplus < 0
        if may_use_idle and self.slabs.partial_idle(size_class):
            return next(iter(self.slabs.partial_idle(size_class)))
        if may_add_slab and self.slabs.num_unassigned:
            return self.slabs.carve(size_class)
        victim = self._oldest(size_class) if may_use_idle else self._oldest_beside_used(size_class)
        other = self._spare_slab(size_class, demand) if may_add_slab else None
        if other is not None and (victim is None or self._is_older(other, size_class, victim)):
            self._clear_slab(other)
            return self.slabs.carve(size_class)
        assert victim is not None, f"fits() promised a block of class {size_class}"
        return self._evict(size_class, victim)

    def _oldest(self, size_class: ClassId) -> BlockId | None:
        """The cached block of a class that was not used for the longest time."""
        oldest = self._cached[size_class].oldest()
        return None if oldest is None else BlockId(oldest)

    def _oldest_beside_used(self, size_class: ClassId) -> BlockId | None:
        """The same, in a slab that is in use anyhow."""
        oldest = self._oldest(size_class)
        if oldest is None or self.slabs.num_used_in(self.slabs.slab_of(size_class, oldest)):
            return oldest
        slab = self.slabs.mixed(size_class)
        if slab is None:
            return None
        per_slab = self.plan.classes[size_class].blocks_per_slab
        blocks = range(slab * per_slab, (slab + 1) * per_slab)
        cached = self._cached[size_class]
        return BlockId(min((b for b in blocks if b in cached), key=cached.stamp_of))

    def _num_spare_slabs(
        self, demand: Sequence[int], own: Sequence[int], idle: Sequence[int]
    ) -> int:
        """Slabs that are left when every class has what is demanded; below 0 where they lack."""
        num_slabs = self.slabs.num_unassigned
        for size_class in self._class_ids:
            per_slab = self.plan.classes[size_class].blocks_per_slab
            surplus = own[size_class] - demand[size_class]
            if surplus < 0:
                num_slabs += surplus // per_slab
            else:
                num_slabs += min(idle[size_class], surplus // per_slab)
        return num_slabs

    def _evict(self, size_class: ClassId, victim: BlockId) -> SlabId:
        """Free a cached block and its row; its slab, carved again if that emptied it."""
        commitment = self.commitment(size_class, victim)
        assert commitment is not None, f"cached block {victim} of class {size_class} has no hash"
        self.num_evictions[size_class] += len(commitment.row)
        self.forget(commitment)
        slab = self.slabs.slab_of(size_class, victim)
        return slab if self.slabs.owner(slab) == size_class else self.slabs.carve(size_class)

    def _is_older(self, slab: SlabId, size_class: ClassId, block: int) -> bool:
        owner = self.slabs.owner(slab)
        assert owner is not None
        return self._idle[owner].stamp_of(slab) < self._cached[size_class].stamp_of(block)

    def _spare_slab(self, size_class: ClassId, demand: Demand) -> SlabId | None:
        """The longest idle slab of another class that can do without it."""
        best: SlabId | None = None
        best_stamp = 0
        for other in self._class_ids:
            slab = self._idle[other].oldest()
            if other == size_class or slab is None:
                continue
            per_slab = self.plan.classes[other].blocks_per_slab
            if self.num_own(other) - per_slab < demand.promised[other]:
                continue
            stamp = self._idle[other].stamp_of(slab)
            if best is None or stamp < best_stamp:
                best, best_stamp = SlabId(slab), stamp
        return best

    def _after_touching(self, touched: Sequence[set[BlockId]]) -> tuple[list[int], list[int]]:
        """Own blocks and idle slabs per class, once ``touched`` blocks are referenced."""
        own = [self.num_own(size_class) for size_class in self._class_ids]
        idle = [len(slabs) for slabs in self._idle]
        for size_class, blocks in zip(self._class_ids, touched, strict=True):
            cached = [block for block in blocks if not self._refs[size_class][block]]
            slabs = {self.slabs.slab_of(size_class, block) for block in cached}
            own[size_class] -= len(cached)
            idle[size_class] -= sum(not self.slabs.num_used_in(slab) for slab in slabs)
        return own, idle

    # Slabs.

    def _clear_slab(self, slab: SlabId) -> None:
        """Evict every cached block of an idle slab, which makes it unassigned."""
        owner = self.slabs.owner(slab)
        assert owner is not None, f"slab {slab} belongs to nobody"
        per_slab = self.plan.classes[owner].blocks_per_slab
        for block in range(slab * per_slab, (slab + 1) * per_slab):
            commitment = self.commitment(owner, BlockId(block))
            if commitment is not None:
                self.num_evictions[owner] += len(commitment.row)
                self.forget(commitment)

    def _let_fall(self, size_class: ClassId, blocks: Sequence[BlockId]) -> None:
        """Nobody uses these hashed blocks any more: they are cached, in this order."""
        self._cached[size_class].push_all(blocks, self._clock + 1)
        self._clock += len(blocks)
        # From the last block to the first: a slab falls idle with the last of its blocks.
        counts = self.slabs.count_by_slab(size_class, blocks[::-1])
        for slab, num_blocks in reversed(counts.items()):
            self.slabs.unuse(size_class, slab, num_blocks)
            self._settle_slab(size_class, slab)

    def _push_free(self, size_class: ClassId, block: BlockId) -> None:
        self._settle_slab(size_class, self.slabs.push_free(size_class, block))

    def _settle_slab(self, size_class: ClassId, slab: SlabId) -> None:
        """After a block of a slab fell free or cached: the slab may now be idle or empty."""
        if self.slabs.num_used_in(slab):
            return
        idle = self._idle[size_class]
        if self.slabs.is_empty(slab):
            if slab in idle:
                idle.remove(slab)
            self.slabs.reclaim(slab)
        elif slab not in idle:
            idle.push(slab, self._tick())

    def _busy(self, size_class: ClassId, slab: SlabId) -> None:
        """A block of a slab is in use: no other class can have it."""
        if slab in self._idle[size_class]:
            self._idle[size_class].remove(slab)

    def _tick(self) -> int:
        self._clock += 1
        return self._clock

    def _reserve_null_blocks(self) -> None:
        """Slab 0 belongs to the smallest class for ever; the null blocks lie in it."""
        smallest = self._class_ids[0]
        slab = self.slabs.carve(smallest)
        for block in self.slabs.pop_free(slab, self.plan.num_reserved_blocks):
            self._refs[smallest][block] = 1
