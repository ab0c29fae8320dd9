"""Luxury: blocks that lie idle at a client so that it need not ask for them.

They may cost nobody anything: luxury comes out of free memory alone, no cached content is evicted
for it, and a share of the pool stays free. The pool judges by this what it grants ahead; the client
what it keeps, for free memory only grows between two of its asks.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from kvquarry_core.plan import Plan

#: One in so many blocks of a class must stay free for luxury to be had.
_RESERVE = 16


@dataclass(frozen=True, slots=True)
class FreeMemory:
    """Memory that holds nothing.

    Attributes:
        blocks: Free blocks in carved slabs, by size class.
        num_unassigned: Slabs of nobody.
    """

    blocks: Sequence[int]
    num_unassigned: int

    def leaves_reserve(self, plan: Plan, demand: Sequence[int]) -> bool:
        """Whether ``demand[c]`` blocks of every class ``c`` leave enough free of those classes."""
        num_slabs = self.num_unassigned
        for geometry, wanted, free in zip(plan.classes, demand, self.blocks, strict=True):
            lacking = wanted + geometry.num_usable_blocks // _RESERVE - free if wanted else 0
            if lacking > 0:
                num_slabs -= -(-lacking // geometry.blocks_per_slab)
        return num_slabs >= 0
