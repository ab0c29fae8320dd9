"""Clearing slabs so that a grant finds one: which could be cleared, and who hears of it.

A slab of class ``c`` can be cleared when the other slabs of ``c`` in use have holes (free or cached
blocks) for its used blocks and for what ``c`` itself is asked for. It can be cleared and nothing
evicted when there are free blocks for all that is in it: that is when ``c`` has a slab's worth of
them beyond what it is asked for. Blocks that were handed out in this step stay where they are:
whoever got them has written their ids down.
"""

import heapq
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from kvquarry_core.block_store import BlockStore
from kvquarry_core.clearing import Clearing
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
# Slabs that a policy may choose among where any one will do.
_FEW = 8


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
        self._class_ids = [ClassId(index) for index in range(len(store.plan.classes))]
        # Slabs with blocks handed out in this step, and that of the null blocks.
        self._still = {SlabId(0)}
        # Classes for which the policy would rather evict than move, in this step.
        self._declined: set[ClassId] = set()
        # Of the answer that is being made: what moved, and slabs that it left or came to.
        self._moves: list[Move] = []
        self._done: set[SlabId] = set()

    def hold_still(self, size_class: ClassId, blocks: Iterable[BlockId]) -> None:
        """Blocks were handed out: they and their neighbours stay until the next step."""
        if self._policy is not None:
            self._still.update(self._store.slabs.slab_of(size_class, block) for block in blocks)

    def begin_step(self) -> None:
        """Whatever was handed out before may move from now on."""
        self._still = {SlabId(0)}
        self._declined.clear()

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
        staying = set(self._still)
        for index, blocks in enumerate(touched):
            staying.update(self._store.slabs.slab_of(ClassId(index), block) for block in blocks)
        candidates = [
            candidate
            for size_class in self._class_ids
            for candidate in self._candidates(size_class, room, demand, staying)
        ]
        chosen = self._policy.choose(candidates, num_lacking)
        return Evacuation(chosen, demand) if len(chosen) >= num_lacking else NO_EVACUATION

    def spare(self, going: SlabId, owner: ClassId, demand: Sequence[int]) -> bool:
        """Clear a slab by moving alone, so that another one of its class need not be evicted.

        Args:
            going: The idle slab that would be evicted, perhaps the one that is cleared.
            owner: Its class.
            demand: Blocks that are still to be handed out, by class.
        """
        if self._policy is None or self._store.cache.slab_goes_first(owner, going):
            return False
        candidates = self._full_of_holes(owner, demand[owner])
        if not candidates:
            return False
        chosen = self._policy.spare(candidates, self._candidate(owner, going).cached_bytes)
        if chosen is None:
            self._declined.add(owner)
            return False
        self.clear(Evacuation((chosen,), demand))
        return True

    def clear(self, evacuation: Evacuation) -> None:
        """Move what is in these slabs elsewhere, or evict it; they are unassigned afterwards.

        Whoever holds the blocks, requests, pins and the lease, holds them by their new ids then.
        """
        if not evacuation:
            return
        most_bytes = 0 if self._policy is None else self._policy.most_kept_bytes
        clearings = {}
        for owner in sorted({one.owner for one in evacuation.slabs}):
            slabs = [one.slab for one in evacuation.slabs if one.owner == owner]
            clearings[owner] = Clearing(self._store, owner, slabs, self._done.union(slabs))
            clearings[owner].move_used()
        for owner, clearing in clearings.items():
            self._rename_held(owner, clearing.moved)
            block_bytes = self._plan.block_bytes(owner)
            most_bytes -= block_bytes * clearing.move_cached(
                most_bytes // block_bytes, evacuation.demand[owner]
            )
            self._moves += (Move(owner, *ids) for ids in clearing.moved.items())
            blocks = chain(*clearing.moved.items())
            self._done.update(self._store.slabs.slab_of(owner, block) for block in blocks)

    def take_moves(self) -> tuple[Move, ...]:
        """The moves since the last call: an answer is complete."""
        if not self._moves:
            return ()
        moves = tuple(self._moves)
        self._moves.clear()
        self._done.clear()
        return moves

    # Which slabs.

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
        # Of equal ones that with the most free blocks has the least content.
        movable.sort(key=lambda slab: (slabs.num_used_in(slab), -slabs.num_free_in(slab), -slab))
        return [self._candidate(size_class, slab) for slab in movable[:num_clearable]]

    def _full_of_holes(self, size_class: ClassId, num_wanted: int) -> list[Candidate]:
        """A few slabs with the most free blocks, each of which the others have room for."""
        slabs, per_slab = self._store.slabs, self._plan.classes[size_class].blocks_per_slab
        in_use, idle = slabs.partial(size_class), slabs.partial_idle(size_class)
        if size_class in self._declined or len(in_use) * per_slab <= num_wanted:
            return []
        # A slab that was carved a moment ago may be empty still.
        with_holes = [slab for slab in in_use if slab not in self._done and slabs.num_used_in(slab)]
        num_holes = sum(map(slabs.num_free_in, with_holes)) - num_wanted
        movable = [*idle, *with_holes] if num_holes >= per_slab else idle
        staying = self._still | self._done
        best = heapq.nlargest(
            _FEW, (slab for slab in movable if slab not in staying), key=slabs.num_free_in
        )
        return [
            self._candidate(size_class, slab)
            for slab in best
            if slabs.num_used_in(slab) or per_slab - slabs.num_free_in(slab) <= num_holes
        ]

    def _candidate(self, size_class: ClassId, slab: SlabId) -> Candidate:
        slabs, block_bytes = self._store.slabs, self._plan.block_bytes(size_class)
        num_used = slabs.num_used_in(slab)
        per_slab = self._plan.classes[size_class].blocks_per_slab
        num_cached = per_slab - num_used - slabs.num_free_in(slab)
        return Candidate(slab, size_class, num_used * block_bytes, num_cached * block_bytes)

    # Who hears of it.

    def _rename_held(self, size_class: ClassId, moved: Mapping[BlockId, BlockId]) -> None:
        """Blocks that somebody holds have other ids."""
        if not moved:
            return
        requests = self._requests.values()
        held = [columns for one in requests for columns in (one.held, one.granted)]
        for group, owner in enumerate(self._plan.class_of_group):
            if owner != size_class:
                continue
            for columns in (*held, *self._pins.columns()):
                if not moved.keys().isdisjoint(columns[group]):
                    columns[group][:] = [moved.get(block, block) for block in columns[group]]
            leased = self._lease.blocks[group]
            leaving = leased & moved.keys()
            leased.difference_update(leaving)
            leased.update(moved[block] for block in leaving)
        self._pins.note_moves(Move(size_class, *ids) for ids in moved.items())
