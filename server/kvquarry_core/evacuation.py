"""Clearing slabs in use: which could be cleared, and how their blocks move.

A slab of class ``c`` can be cleared when the other slabs of ``c`` in use have holes (free or cached
blocks) for its used blocks and for what ``c`` itself is asked for. Blocks that were handed out in
this step stay where they are: whoever got them has written their ids down.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from kvquarry_core.block_store import BlockStore, Room
from kvquarry_core.ids import BlockId, ClassId, GroupId, SlabId
from kvquarry_core.lease import Lease
from kvquarry_core.plan import Plan
from kvquarry_core.relocation import Candidate, Move, Relocation
from kvquarry_core.requests import RequestRecord


class Evacuator:
    """Makes room for one demand after the other by moving blocks together."""

    def __init__(self, store: BlockStore, lease: Lease, policy: Relocation) -> None:
        self._plan: Plan = store.plan
        self._store = store
        self._lease = lease
        self._policy = policy
        # Slabs with blocks handed out in this step.
        self._pinned: set[SlabId] = set()

    def pin(self, size_class: ClassId, blocks: Iterable[BlockId]) -> None:
        """Blocks were handed out: they and their neighbours stay until the next step."""
        self._pinned.update(self._store.slabs.slab_of(size_class, block) for block in blocks)

    def begin_step(self) -> None:
        """Whatever was handed out before may move from now on."""
        self._pinned.clear()

    def slabs_for(
        self, demand: Sequence[int], touched: Sequence[set[BlockId]]
    ) -> Sequence[Candidate]:
        """The slabs to clear so that a demand fits; empty where that cannot be.

        Args:
            demand: Blocks wanted, by class.
            touched: Blocks that will be referenced first, by class: they stay.
        """
        room = self._store.room(touched)
        num_lacking = -room.num_spare_slabs(self._plan, demand)
        if num_lacking <= 0:
            return ()
        staying = self._pinned.union(
            self._store.slabs.slab_of(ClassId(index), block)
            for index, blocks in enumerate(touched)
            for block in blocks
        )
        candidates = [
            one
            for index in range(len(self._plan.classes))
            for one in self._candidates(ClassId(index), room, demand, staying)
        ]
        chosen = self._policy.choose(candidates, num_lacking)
        return chosen if len(chosen) >= num_lacking else ()

    def _candidates(
        self, size_class: ClassId, room: Room, demand: Sequence[int], staying: set[SlabId]
    ) -> list[Candidate]:
        """The cheapest slabs of a class, as many as its holes can take in."""
        per_slab = self._plan.classes[size_class].blocks_per_slab
        surplus = room.own[size_class] - demand[size_class]
        num_clearable = surplus // per_slab - room.idle[size_class]
        if num_clearable <= 0:
            return []
        in_use = [slab for slab in self._slabs_in_use(size_class) if slab not in staying]
        num_used = self._store.slabs.num_used_in
        in_use.sort(key=lambda slab: (num_used(slab), -slab))
        block_bytes = self._plan.block_bytes(size_class)
        return [
            Candidate(slab, size_class, num_used(slab), num_used(slab) * block_bytes)
            for slab in in_use[:num_clearable]
        ]

    def _slabs_in_use(self, size_class: ClassId) -> Iterator[SlabId]:
        slabs = self._store.slabs
        for number in range(1, self._plan.num_slabs):
            slab = SlabId(number)
            if slabs.owner(slab) == size_class and slabs.num_used_in(slab):
                yield slab

    def clear(
        self, chosen: Sequence[Candidate], records: Iterable[RequestRecord]
    ) -> tuple[Move, ...]:
        """Move what is used in these slabs elsewhere; they are unassigned afterwards.

        Args:
            chosen: Slabs that :meth:`slabs_for` found.
            records: Whoever may hold their blocks.
        """
        leaving = {one.slab for one in chosen}
        moves: list[Move] = []
        for one in chosen:
            moves += self._clear(one, leaving)
        targets = {(move.size_class, move.source): move.target for move in moves}
        for record in records:
            self._rename(record.held, targets)
            self._rename(record.granted, targets)
        for group, blocks in enumerate(self._lease.blocks):
            size_class = self._plan.class_of_group[group]
            moved = [block for block in blocks if (size_class, block) in targets]
            blocks.difference_update(moved)
            blocks.update(targets[size_class, block] for block in moved)
        return tuple(moves)

    def _clear(self, one: Candidate, leaving: set[SlabId]) -> list[Move]:
        per_slab = self._plan.classes[one.owner].blocks_per_slab
        blocks = [BlockId(one.slab * per_slab + offset) for offset in range(per_slab)]
        self._store.evict_cached(one.owner, blocks)
        used = [block for block in blocks if self._store.is_used(one.owner, block)]
        moves = []
        for source in used:
            hole = self._hole(one.owner, leaving)
            moves.append(Move(one.owner, source, self._store.move(one.owner, source, hole)))
        return moves

    def _hole(self, size_class: ClassId, leaving: set[SlabId]) -> SlabId:
        """A slab in use that stays and has a free block, if need be by evicting cached content."""
        slabs = self._store.slabs
        with_hole = (slab for slab in slabs.partial(size_class) if slab not in leaving)
        hole = min(with_hole, default=None)
        if hole is None:
            hole = self._store.evict_beside_used(size_class, leaving)
        return hole

    def _rename(
        self,
        columns: Sequence[list[BlockId]],
        targets: Mapping[tuple[ClassId, BlockId], BlockId],
    ) -> None:
        for group, blocks in enumerate(columns):
            size_class = self._plan.class_of_group[GroupId(group)]
            for index, block in enumerate(blocks):
                target = targets.get((size_class, block))
                if target is not None:
                    blocks[index] = target
