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

from collections.abc import Container, Iterable, Iterator, Sequence

from kvquarry_core.demand import Demand
from kvquarry_core.errors import BrokenLaw
from kvquarry_core.eviction import Eviction
from kvquarry_core.ids import BlockHash, BlockId, ClassId, KindId, SlabId
from kvquarry_core.lru import OLDEST_STAMP, RecencyList
from kvquarry_core.luxury import FreeMemory
from kvquarry_core.observer import PoolObserver
from kvquarry_core.placement import Placement
from kvquarry_core.plan import Plan
from kvquarry_core.prefix_index import Commitment, PrefixIndex
from kvquarry_core.room import Room
from kvquarry_core.sessions import Sessions
from kvquarry_core.slabs import SlabMap


class BlockStore:
    """Reference counts, recency and hashes of all blocks, over a :class:`SlabMap`."""

    def __init__(
        self, plan: Plan, placement: Placement, eviction: Eviction, observer: PoolObserver
    ) -> None:
        self.plan = plan
        self.slabs = SlabMap(plan)
        self.index = PrefixIndex(len(plan.kinds))
        self.sessions = Sessions(len(plan.classes))
        self.num_evictions = [0] * len(plan.classes)
        self.num_moves = [0] * len(plan.classes)
        self._placement = placement
        self._eviction = eviction
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
        # Tokens that cached checkpoints sum up, and those of any other block.
        self._depths: list[dict[BlockId, int]] = [{} for _ in plan.classes]
        self._block_tokens = [
            plan.groups[plan.class_of_group.index(one)].block_tokens for one in self._class_ids
        ]
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

    def hash_of(self, size_class: ClassId, block: BlockId) -> BlockHash | None:
        """The hash that a block is findable under, if any."""
        return self._hashes[size_class][block]

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

    # Cached content, as :class:`~kvquarry_core.eviction.CacheView` shows it to policies.

    @property
    def now(self) -> int:
        """The stamp given last."""
        return self._clock

    def by_age(self, size_class: ClassId) -> Iterator[BlockId]:
        """The cached blocks of a class, the one that was not used for the longest time first."""
        return (BlockId(block) for block in self._cached[size_class])

    def stamp_of(self, size_class: ClassId, block: BlockId) -> int:
        """When a cached block fell out of use."""
        return self._cached[size_class].stamp_of(block)

    def idle_slabs(self, size_class: ClassId) -> Iterator[SlabId]:
        """The slabs of a class that hold cached blocks and none in use, the longest idle first."""
        return (SlabId(slab) for slab in self._idle[size_class])

    def idle_since(self, size_class: ClassId, slab: SlabId) -> int:
        """When a slab fell idle."""
        return self._idle[size_class].stamp_of(slab)

    def cached_in(self, size_class: ClassId, slab: SlabId) -> list[BlockId]:
        """The cached blocks of a slab; O(blocks per slab)."""
        cached = self._cached[size_class]
        return [block for block in self.slabs.blocks_of(size_class, slab) if block in cached]

    def saved_tokens_per_byte(self, size_class: ClassId, block: BlockId) -> float:
        """Tokens that need not be computed while a cached block is there, by its size."""
        tokens = self._depths[size_class].get(block, self._block_tokens[size_class])
        return tokens / self.plan.block_bytes(size_class)

    def free_memory(self) -> FreeMemory:
        """What can be handed out without evicting anything."""
        free = [self.slabs.num_free(size_class) for size_class in self._class_ids]
        return FreeMemory(free, self.slabs.num_unassigned)

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
        if self.sessions.outgrown[size_class]:
            blocks = self._release_outgrown(size_class, list(blocks))
        refs, hashes = self._refs[size_class], self._hashes[size_class]
        # Runs of blocks with a hash and of those without, in the order given.
        falling: list[BlockId] = []
        free: list[BlockId] = []
        for block in blocks:
            count = refs[block] - 1
            assert count >= 0, f"block {block} of class {size_class} released once too often"
            refs[block] = count
            if count:
                continue
            if hashes[block] is None:
                if falling:
                    self._let_fall(size_class, falling)
                    falling = []
                free.append(block)
            else:
                if free:
                    self.give_back(size_class, free)
                    free = []
                falling.append(block)
        self._let_fall(size_class, falling)
        self.give_back(size_class, free)

    def release_to_go_first(self, size_class: ClassId, blocks: Iterable[BlockId]) -> None:
        """The same for blocks that nobody will miss: they are evicted before all others.

        The last of them goes first. So does a slab of which such blocks are all that is left.
        """
        refs, hashes = self._refs[size_class], self._hashes[size_class]
        for block in blocks:
            assert refs[block], f"block {block} of class {size_class} released once too often"
            refs[block] -= 1
            if refs[block]:
                continue
            if hashes[block] is None:
                self.give_back(size_class, (block,))
            else:
                self.sessions.outgrown[size_class].discard(block)
                self._cached[size_class].push_oldest(block)
                slab = self.slabs.slab_of(size_class, block)
                self.slabs.unuse(size_class, slab, 1)
                self._settle_slab(size_class, slab)

    def let_go_first(self, size_class: ClassId, row: Iterable[BlockId]) -> None:
        """Nobody will miss a checkpoint: it is evicted first once nobody uses it."""
        cached, idle = self._cached[size_class], self._idle[size_class]
        for block in row:
            if block not in cached:
                self.sessions.outgrown[size_class].add(block)
                continue
            cached.remove(block)
            cached.push_oldest(block)
            slab = self.slabs.slab_of(size_class, block)
            if slab in idle and self._goes_first(size_class, slab):
                idle.remove(slab)
                idle.push_oldest(slab)

    def _release_outgrown(self, size_class: ClassId, blocks: list[BlockId]) -> list[BlockId]:
        """Release those blocks that go first; the others are returned."""
        outgrown = self.sessions.outgrown[size_class]
        going = [block for block in blocks if block in outgrown]
        rest = [block for block in blocks if block not in outgrown]
        self.release_to_go_first(size_class, going)
        return rest

    # Hashes.

    def commit(
        self,
        kind: KindId,
        hashes: Sequence[BlockHash],
        blocks: Sequence[BlockId],
        depth_tokens: int = 0,
    ) -> None:
        """Make referenced rows, one after another in ``blocks``, findable.

        Args:
            kind: Whose rows they are.
            hashes: One per row.
            blocks: One per row and member group.
            depth_tokens: Tokens that a checkpoint sums up; 0 for rows that hold their own alone.
        """
        if depth_tokens:
            depths = self._depths[self.plan.class_of_kind(kind)]
            depths.update(dict.fromkeys(blocks, depth_tokens))
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
            self._depths[size_class].pop(block, None)
            self.sessions.forget(size_class, block)
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
        # Mostly there is plenty, and nobody need look at each touched block.
        return (
            self._room_at_worst(touched).num_spare_slabs(demand) >= 0
            or self.room(touched).num_spare_slabs(demand) >= 0
        )

    def room(self, touched: Sequence[set[BlockId]] | None = None) -> Room:
        """What could be handed out, once ``touched`` blocks are referenced."""
        own = [self.num_own(size_class) for size_class in self._class_ids]
        idle = [len(slabs) for slabs in self._idle]
        for size_class, blocks in zip(self._class_ids, touched or (), strict=False):
            cached = [block for block in blocks if not self._refs[size_class][block]]
            slabs = {self.slabs.slab_of(size_class, block) for block in cached}
            own[size_class] -= len(cached)
            idle[size_class] -= sum(not self.slabs.num_used_in(slab) for slab in slabs)
        return Room(self.plan, own, idle, self.slabs.num_unassigned)

    def _room_at_worst(self, touched: Sequence[set[BlockId]]) -> Room:
        """The same as if each touched block were the only cached one of an idle slab."""
        own = [self.num_own(one) - len(touched[one]) for one in self._class_ids]
        idle = [max(len(self._idle[one]) - len(touched[one]), 0) for one in self._class_ids]
        return Room(self.plan, own, idle, self.slabs.num_unassigned)

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
        room = self.room()
        num_spare = room.num_spare_slabs(demand.promised)
        surplus = room.surplus(size_class, demand.promised)
        per_slab = self.plan.classes[size_class].blocks_per_slab
        may_use_idle = num_spare > 0 or room.idle[size_class] > surplus // per_slab
        may_add_slab = num_spare > 0 or surplus < 0
        if may_use_idle and self.slabs.partial_idle(size_class):
            return next(iter(self.slabs.partial_idle(size_class)))
        if may_add_slab and self.slabs.num_unassigned:
            return self.slabs.carve(size_class)
        victims = self._victims(size_class)
        if victims and not (may_use_idle or self._is_beside_used(size_class, victims[0])):
            oldest = self._oldest_beside_used(size_class)
            victims = () if oldest is None else (oldest,)
        other = self._spare_slab(size_class, demand) if may_add_slab else None
        if other is not None and not (victims and self._outlives(other, size_class, victims[0])):
            self._clear_slab(other)
            return self.slabs.carve(size_class)
        assert victims, f"fits() promised a block of class {size_class}"
        return self._evict(size_class, victims)

    def _victims(self, size_class: ClassId) -> Sequence[BlockId]:
        """The cached blocks of a class that are missed least."""
        return self._eviction.victims(self, size_class) if len(self._cached[size_class]) else ()

    def _is_beside_used(self, size_class: ClassId, block: BlockId) -> bool:
        """Whether a block's slab is in use anyhow."""
        return self.slabs.num_used_in(self.slabs.slab_of(size_class, block)) > 0

    def _oldest_beside_used(
        self, size_class: ClassId, leaving: Container[SlabId] = ()
    ) -> BlockId | None:
        """The oldest cached block of some slab in use, other than those about to be cleared."""
        slab = self.slabs.mixed(size_class, leaving)
        if slab is None:
            return None
        return min(
            self.cached_in(size_class, slab), key=lambda block: self.stamp_of(size_class, block)
        )

    def _evict(self, size_class: ClassId, victims: Sequence[BlockId]) -> SlabId:
        """Free cached blocks and their rows; the first one's slab, carved again if emptied."""
        self.evict_all(size_class, victims)
        slab = self.slabs.slab_of(size_class, victims[0])
        return slab if self.slabs.owner(slab) == size_class else self.slabs.carve(size_class)

    def _outlives(self, slab: SlabId, size_class: ClassId, block: BlockId) -> bool:
        """Whether another class's idle slab is missed as much as a block, or more."""
        owner = self.slabs.owner(slab)
        assert owner is not None
        slab_worth = self._eviction.slab_worth(self, owner, slab)
        return slab_worth >= self._eviction.block_worth(self, size_class, block)

    def _spare_slab(self, size_class: ClassId, demand: Demand) -> SlabId | None:
        """The idle slab of another class that can do without it and is missed least."""
        best: SlabId | None = None
        best_worth = 0.0
        for other in self._class_ids:
            slab = self._idle[other].oldest()
            if other == size_class or slab is None:
                continue
            per_slab = self.plan.classes[other].blocks_per_slab
            if self.num_own(other) - per_slab < demand.promised[other]:
                continue
            worth = self._eviction.slab_worth(self, other, SlabId(slab))
            if best is None or worth < best_worth:
                best, best_worth = SlabId(slab), worth
        return best

    # Moving blocks, see :mod:`kvquarry_core.evacuation`.

    def evict_all(self, size_class: ClassId, blocks: Iterable[BlockId]) -> None:
        """Evict cached blocks, each with its row."""
        for block in blocks:
            commitment = self.commitment(size_class, block)
            if commitment is not None:
                self.num_evictions[size_class] += len(commitment.row)
                self.forget(commitment)

    def hole_beside_used(self, size_class: ClassId, leaving: Container[SlabId]) -> SlabId | None:
        """A slab in use with a free block, made by evicting one if need be; None for none.

        Args:
            size_class: Whose slab.
            leaving: Slabs that are about to be cleared.
        """
        partial = self.slabs.partial(size_class)
        slab = min((slab for slab in partial if slab not in leaving), default=None)
        if slab is None:
            victim = self._oldest_beside_used(size_class, leaving)
            if victim is not None:
                self.evict_all(size_class, (victim,))
                slab = self.slabs.slab_of(size_class, victim)
        return slab

    def move(self, size_class: ClassId, source: BlockId, hole: SlabId) -> BlockId:
        """Move what a used block is to a free block of another slab; the source becomes free."""
        [target] = self.slabs.pop_free(hole, 1)
        self.num_moves[size_class] += 1
        refs, hashes = self._refs[size_class], self._hashes[size_class]
        commitment = self.commitment(size_class, source)
        if commitment is not None:
            self.index.rename(commitment, source, target)
            self.sessions.rename(size_class, source, target)
            hashes[target], hashes[source] = hashes[source], None
            if source in self._depths[size_class]:
                self._depths[size_class][target] = self._depths[size_class].pop(source)
        refs[target], refs[source] = refs[source], 0
        self.slabs.copy_dirt(size_class, source, target)
        self.give_back(size_class, (source,))
        return target

    # Slabs.

    def _clear_slab(self, slab: SlabId) -> None:
        """Evict every cached block of an idle slab, which makes it unassigned."""
        owner = self.slabs.owner(slab)
        assert owner is not None, f"slab {slab} belongs to nobody"
        self.evict_all(owner, self.cached_in(owner, slab))

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
            if self._goes_first(size_class, slab):
                idle.push_oldest(slab)
            else:
                idle.push(slab, self._tick())

    def _goes_first(self, size_class: ClassId, slab: SlabId) -> bool:
        """Whether an idle slab holds nothing that anybody will miss."""
        cached = self._cached[size_class]
        oldest = cached.oldest()
        if oldest is None or cached.stamp_of(oldest) != OLDEST_STAMP:
            return False
        return all(
            block not in cached or cached.stamp_of(block) == OLDEST_STAMP
            for block in self.slabs.blocks_of(size_class, slab)
        )

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
