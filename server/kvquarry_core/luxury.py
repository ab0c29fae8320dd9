"""Luxury: blocks that lie idle at a client so that it need not ask for them.

Where memory is plenty they cost nobody anything: they come out of free memory alone, no cached
content is evicted for them, and a share of the pool stays free.

A pool that has run for a while is full of cached content, and nothing is plenty any more. Then as
much may lie idle as a sixteenth of what could be evicted, in place of the content that would go
next. Pools whose blocks all have one size do without: they evict as stock vLLM does.

The pool judges by this what it grants ahead; the client what it keeps, for what nobody uses only
grows between two of its asks.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from kvquarry_core.plan import Plan

#: One in so many blocks of a class must stay free for luxury to be had without bounds.
_RESERVE = 16
#: One in so many blocks that nobody uses may lie idle instead of holding content.
_SHARE = 16


@dataclass(frozen=True, slots=True)
class FreeMemory:
    """Memory that nobody uses.

    Attributes:
        blocks: Blocks in carved slabs that hold nothing, by size class.
        num_unassigned: Slabs of nobody.
        cached: Blocks that hold content which could be evicted, by size class.
    """

    blocks: Sequence[int]
    num_unassigned: int
    cached: Sequence[int]

    def leaves_reserve(self, plan: Plan, demand: Sequence[int]) -> bool:
        """Whether ``demand[c]`` blocks of every class ``c`` leave enough free of those classes."""
        num_slabs = self.num_unassigned
        for geometry, wanted, free in zip(plan.classes, demand, self.blocks, strict=True):
            lacking = wanted + geometry.num_usable_blocks // _RESERVE - free if wanted else 0
            if lacking > 0:
                num_slabs -= -(-lacking // geometry.blocks_per_slab)
        return num_slabs >= 0

    def most_idle(self, plan: Plan, owed: Sequence[int]) -> list[int]:
        """Blocks by class that may lie idle where memory is not plenty.

        Args:
            plan: How memory is cut.
            owed: Blocks by class that are promised to others: nobody else's luxury.
        """
        if len(plan.classes) == 1:
            return [0]
        columns = zip(self.blocks, self.cached, owed, strict=True)
        return [max(free + cached - promised, 0) // _SHARE for free, cached, promised in columns]
