"""Hands out blocks, and decides what has to go for them."""

from collections.abc import Sequence
from itertools import takewhile

from kvquarry_core.block_store import BlockStore
from kvquarry_core.demand import Demand
from kvquarry_core.evacuation import Evacuator
from kvquarry_core.eviction import Eviction
from kvquarry_core.ids import BlockId, ClassId, SlabId
from kvquarry_core.placement import Placement


class Allocator:
    """Delivers whatever the :class:`~kvquarry_core.gate.Gate` said would fit."""

    def __init__(
        self,
        store: BlockStore,
        placement: Placement,
        eviction: Eviction,
        evacuator: Evacuator,
    ) -> None:
        self._store = store
        self._slabs = store.slabs
        self._cache = store.cache
        self._placement = placement
        self._eviction = eviction
        self._evacuator = evacuator
        self._class_ids = [ClassId(index) for index in range(len(store.plan.classes))]

    def secure(self, demand: Demand) -> None:
        """Gather enough slabs that every class can serve its demand out of its own.

        Call only when the gate said yes, and before the first :meth:`grant` of the demand.
        Clearing a slab may empty others by the way, where rows span them: then the class that
        counted on those is short in its turn, and a slab is there for it.
        """
        short = self._shortest(demand.now)
        while short is not None:
            if not self._slabs.num_unassigned:
                slab = self._spare_slab(short, demand)
                assert slab is not None, f"the gate promised a slab for class {short}"
                self._take_away(slab, demand)
            self._slabs.carve(short)
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
            most = num_blocks - len(granted)
            slab = self._placement.choose(self._slabs, size_class, near)
            if slab is None:
                self._evacuator.hold_still(size_class, granted)
                blocks = self._from_elsewhere(size_class, most, demand)
            else:
                blocks = self._store.grant(size_class, slab, most)
            demand.shrink(size_class, len(blocks))
            granted += blocks
            near = self._slabs.slab_of(size_class, blocks[-1])
        return granted

    def _shortest(self, demand: Sequence[int]) -> ClassId | None:
        """A class that cannot serve its demand out of its own, if there is one."""
        for size_class, own in zip(self._class_ids, self._store.num_own(), strict=True):
            if own < demand[size_class]:
                return size_class
        return None

    def _from_elsewhere(self, size_class: ClassId, most: int, demand: Demand) -> list[BlockId]:
        """A free block or up to ``most``, though no slab of the class in use has one.

        Whichever costs least: a free block beside cached content, an unassigned slab, or what has
        not been used for the longest time. A way that takes a slab which somebody was promised is
        left out.
        """
        room = self._store.room()
        num_spare = room.num_spare_slabs(demand.promised)
        surplus = room.surplus(size_class, demand.promised)
        per_slab = self._store.plan.classes[size_class].blocks_per_slab
        may_use_idle = num_spare > 0 or room.idle[size_class] > surplus // per_slab
        may_add_slab = num_spare > 0 or surplus < 0
        if may_use_idle and self._slabs.partial_idle(size_class):
            idle = next(iter(self._slabs.partial_idle(size_class)))
            return self._store.grant(size_class, idle, most)
        if may_add_slab and self._slabs.num_unassigned:
            # As many as would be carved one after the other: those lacking cost no spare one.
            num_lacking = -(min(surplus, 0) // per_slab)
            return self._store.grant_new(size_class, most, num_lacking + max(num_spare, 0))
        victims = self._victims(size_class, most)
        if victims and not (may_use_idle or self._is_beside_used(size_class, victims[0])):
            oldest = self._cache.oldest_beside_used(size_class)
            victims = () if oldest is None else (oldest,)
        other = self._spare_slab(size_class, demand) if may_add_slab else None
        if other is not None:
            victims = self._missed_less(size_class, victims, self._slab_worth(other))
            if not victims:
                self._take_away(other, demand)
                return self._store.grant_new(size_class, most, 1)
        assert victims, f"the gate promised a block of class {size_class}"
        return self._store.grant(size_class, self._evict(size_class, victims), most)

    def _victims(self, size_class: ClassId, most: int) -> Sequence[BlockId]:
        """The cached blocks of a class that are missed least."""
        if not self._cache.num_cached(size_class):
            return ()
        return self._eviction.victims(self._cache, size_class, most)

    def _is_beside_used(self, size_class: ClassId, block: BlockId) -> bool:
        """Whether a block's slab is in use anyhow."""
        return self._slabs.num_used_in(self._slabs.slab_of(size_class, block)) > 0

    def _spare_slab(self, size_class: ClassId, demand: Demand) -> SlabId | None:
        """The idle slab of another class that can do without it and is missed least."""
        best: SlabId | None = None
        best_worth = 0.0
        for other, own in zip(self._class_ids, self._store.num_own(), strict=True):
            slab = self._cache.longest_idle(other)
            if other == size_class or slab is None:
                continue
            per_slab = self._store.plan.classes[other].blocks_per_slab
            if own - per_slab < demand.promised[other]:
                continue
            worth = self._eviction.slab_worth(self._cache, other, slab)
            if best is None or worth < best_worth:
                best, best_worth = slab, worth
        return best

    def _take_away(self, slab: SlabId, demand: Demand) -> None:
        """A class has a slab less: this idle one, unless blocks are moved so that it may stay."""
        owner = self._slabs.owner(slab)
        assert owner is not None, f"slab {slab} belongs to nobody"
        if not self._evacuator.spare(slab, owner, demand.now):
            self._store.clear_slab(slab)

    def _missed_less(
        self, size_class: ClassId, victims: Sequence[BlockId], worth: float
    ) -> Sequence[BlockId]:
        """The victims up to the first one that is missed more than something of this worth."""
        cache, worth_of = self._cache, self._eviction.block_worth
        return list(takewhile(lambda one: worth_of(cache, size_class, one) <= worth, victims))

    def _slab_worth(self, slab: SlabId) -> float:
        """How much an idle slab is missed."""
        owner = self._slabs.owner(slab)
        assert owner is not None, f"slab {slab} belongs to nobody"
        return self._eviction.slab_worth(self._cache, owner, slab)

    def _evict(self, size_class: ClassId, victims: Sequence[BlockId]) -> SlabId:
        """Free cached blocks and their rows; the first one's slab, carved again if emptied."""
        self._store.evict(size_class, victims)
        slab = self._slabs.slab_of(size_class, victims[0])
        return slab if self._slabs.owner(slab) == size_class else self._slabs.carve(size_class)
