"""What a pool could hand out if some pins gave way: the sums, before any of them does.

Blocks that only these pins hold would be cached, and slabs that nobody else uses would be idle.
"""

from collections import Counter
from collections.abc import Callable, Sequence

from kvquarry_core.block_store import BlockStore
from kvquarry_core.ids import BlockId, ClassId, SlabId
from kvquarry_core.room import Room


class Concession:
    """Pins that could give way together; the sums grow with each one added."""

    def __init__(self, store: BlockStore, end: Callable[[Sequence[str]], None]) -> None:
        """``end`` is called with the names of the pins that give way."""
        self._plan = plan = store.plan
        self._store = store
        self._end = end
        self._pin_ids: list[str] = []
        # How many of the pins hold a block, and the blocks that nobody else holds, by class.
        self._num_pins: list[Counter[BlockId]] = [Counter() for _ in plan.classes]
        self._freed: list[set[BlockId]] = [set() for _ in plan.classes]
        self._num_freed_in: Counter[SlabId] = Counter()

    def add(self, pin_id: str, held: Sequence[Sequence[BlockId]]) -> None:
        """Let one more pin give way."""
        self._pin_ids.append(pin_id)
        for size_class, column in zip(self._plan.class_of_group, held, strict=True):
            counts = self._num_pins[size_class]
            for block in column:
                counts[block] += 1
                if counts[block] == self._store.num_references(size_class, block):
                    self._freed[size_class].add(block)
                    self._num_freed_in[self._store.slabs.slab_of(size_class, block)] += 1

    def carry_out(self) -> None:
        """The pins give way."""
        self._end(self._pin_ids)

    def fits(self, demand: Sequence[int], touched: Sequence[set[BlockId]] = ()) -> bool:
        """Whether a demand can be had once the pins gave way, as the gate asks it of the pool."""
        room = self._store.room(touched)
        own, idle = list(room.own), list(room.idle)
        for index, freed in enumerate(self._freed):
            staying = touched[index] if touched else set()
            own[index] += len(freed - staying)
            idle[index] += self._num_slabs_falling_idle(ClassId(index), staying)
        return Room(self._plan, own, idle, room.num_unassigned).num_spare_slabs(demand) >= 0

    def _num_slabs_falling_idle(self, size_class: ClassId, touched: set[BlockId]) -> int:
        """Slabs in which nobody but the pins uses a block, now or once the touched ones are."""
        slabs = self._store.slabs
        staying = {slabs.slab_of(size_class, block) for block in touched}
        return sum(
            slab not in staying and num_freed == slabs.num_used_in(slab)
            for slab, num_freed in self._num_freed_in.items()
            if slabs.owner(slab) == size_class
        )
