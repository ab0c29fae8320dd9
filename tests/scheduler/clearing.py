"""Slabs that are cleared though nobody needs them."""

from collections.abc import Sequence

from kvquarry_core.evacuation import Evacuation
from kvquarry_core.ids import ClassId, SlabId
from kvquarry_core.pool import Pool
from kvquarry_core.relocation import Move


def clear_all(pool: Pool) -> Sequence[Move]:
    """Clear of every class as many slabs as the others have holes for; what moved."""
    nothing = [0] * len(pool.plan.classes)
    evacuator, room = pool.evacuator, pool.store.room()
    candidates = [
        one
        for size_class in map(ClassId, range(len(pool.plan.classes)))
        for one in evacuator._candidates(size_class, room, nothing, {SlabId(0)})
    ]
    evacuator.clear(Evacuation(candidates, nothing))
    return evacuator.take_moves()
