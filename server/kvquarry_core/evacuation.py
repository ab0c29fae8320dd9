"""Clearing slabs in use: which could be cleared, and how their blocks move.

A slab of class ``c`` can be cleared when the other slabs of ``c`` in use have holes (free or cached
blocks) for its used blocks and for what ``c`` itself is asked for. Blocks that were handed out in
this step stay where they are: whoever got them has written their ids down.
"""

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass

from kvquarry_core.block_store import BlockStore
from kvquarry_core.ids import BlockId, ClassId, SlabId
from kvquarry_core.lease import Lease
from kvquarry_core.pins import Pins
from kvquarry_core.relocation import Candidate, Move, Relocation
from kvquarry_core.room import Room
from kvquarry_core.running import RunningRequests


@dataclass(frozen=True, slots=True)
class Evacuation:
    """Slabs to clear, and what fits then.

    Attributes:
        slabs: Which.
        demand: Blocks, by class.
    """

    slabs: Sequence[Candidate] = ()
    demand: Sequence[int] = ()

    def __bool__(self) -> bool:
        return bool(self.slabs)


NO_EVACUATION = Evacuation()

#: Where blocks of each class went.
_Targets = Sequence[Mapping[BlockId, BlockId]]


class Evacuator:
    """Makes room for one demand after the other by moving blocks together."""

    def __init__(
        self,
        store: BlockStore,
        lease: Lease,
        requests: RunningRequests,
        pins: Pins,
        policy: Relocation | None,
    ) -> None:
        self._plan = store.plan
        self._store = store
        self._lease = lease
        self._requests = requests
        self._pins = pins
        self._policy = policy
        # Slabs with blocks handed out in this step; the null blocks' never moves.
        self._still: set[SlabId] = set()

    def hold_still(self, size_class: ClassId, blocks: Iterable[BlockId]) -> None:
        """Blocks were handed out: they and their neighbours stay until the next step."""
        if self._policy is not None:
            self._still.update(self._store.slabs.slab_of(size_class, block) for block in blocks)

    def begin_step(self) -> None:
        """Whatever was handed out before may move from now on."""
        self._still.clear()

    def plan(self, demand: Sequence[int], touched: Sequence[set[BlockId]]) -> Evacuation:
        """The slabs to clear so that a demand fits; none where that cannot be.

        Args:
            demand: Blocks wanted, by class.
            touched: Blocks that will be referenced first, by class: they stay.
        """
        room = self._store.room(touched)
        num_lacking = -room.num_spare_slabs(demand)
        if num_lacking <= 0 or self._policy is None:
            return NO_EVACUATION
        staying = {SlabId(0)} | self._still
        for index, blocks in enumerate(touched):
            staying.update(self._store.slabs.slab_of(ClassId(index), block) for block in blocks)
        candidates = [
            candidate
            for index in range(len(self._plan.classes))
            for candidate in self._candidates(ClassId(index), room, demand, staying)
        ]
        chosen = self._policy.choose(candidates, num_lacking)
        return Evacuation(chosen, demand) if len(chosen) >= num_lacking else NO_EVACUATION

    def clear(self, evacuation: Evacuation) -> tuple[Move, ...]:
        """Move what is used in these slabs elsewhere; they are unassigned afterwards.

        Whoever holds the blocks, requests, pins and the lease, holds them by their new ids then.
        """
        if not evacuation:
            return ()
        leaving = {one.slab for one in evacuation.slabs}
        targets: list[dict[BlockId, BlockId]] = [{} for _ in self._plan.classes]
        for one in evacuation.slabs:
            targets[one.owner] |= self._clear(one, leaving)
        held = [columns for one in self._requests.values() for columns in (one.held, one.granted)]
        for columns in (*held, *self._pins.columns()):
            self._rename(columns, targets)
        for group, blocks in enumerate(self._lease.blocks):
            moved = blocks & targets[self._plan.class_of_group[group]].keys()
            blocks.difference_update(moved)
            blocks.update(targets[self._plan.class_of_group[group]][block] for block in moved)
        moves = tuple(
            Move(ClassId(index), source, target)
            for index, of_class in enumerate(targets)
            for source, target in of_class.items()
        )
        self._pins.note_moves(moves)
        return moves

    def _candidates(
        self, size_class: ClassId, room: Room, demand: Sequence[int], staying: set[SlabId]
    ) -> list[Candidate]:
        """The slabs of a class with the fewest blocks to move, as many as its holes can take in."""
        per_slab = self._plan.classes[size_class].blocks_per_slab
        num_clearable = room.surplus(size_class, demand) // per_slab - room.idle[size_class]
        if num_clearable <= 0:
            return []
        slabs = self._store.slabs
        movable = [slab for slab in slabs.in_use(size_class) if slab not in staying]
        movable.sort(key=lambda slab: (slabs.num_used_in(slab), -slab))
        block_bytes = self._plan.block_bytes(size_class)
        return [
            Candidate(slab, size_class, slabs.num_used_in(slab) * block_bytes)
            for slab in movable[:num_clearable]
        ]

    def _clear(self, one: Candidate, leaving: set[SlabId]) -> dict[BlockId, BlockId]:
        """Where each used block of a slab went."""
        slabs, size_class = self._store.slabs, one.owner
        self._store.evict(size_class, self._store.cache.cached_in(size_class, one.slab))
        free = set(slabs.free_blocks(one.slab))
        moved = {}
        for source in slabs.blocks_of(size_class, one.slab):
            if source not in free:
                hole = self._hole(size_class, leaving)
                assert hole is not None, f"class {size_class} has no hole for block {source}"
                moved[source] = self._store.move(size_class, source, hole)
        return moved

    def _hole(self, size_class: ClassId, leaving: Container[SlabId]) -> SlabId | None:
        """A slab in use with a free block, made by evicting one if need be; None for none."""
        slabs, cache = self._store.slabs, self._store.cache
        partial = slabs.partial(size_class)
        slab = min((slab for slab in partial if slab not in leaving), default=None)
        if slab is None:
            victim = cache.oldest_beside_used(size_class, leaving)
            if victim is not None:
                self._store.evict(size_class, (victim,))
                slab = slabs.slab_of(size_class, victim)
        return slab

    def _rename(self, columns: Sequence[list[BlockId]], targets: _Targets) -> None:
        for group, blocks in enumerate(columns):
            of_class = targets[self._plan.class_of_group[group]]
            if of_class and not of_class.keys().isdisjoint(blocks):
                blocks[:] = [of_class.get(block, block) for block in blocks]
