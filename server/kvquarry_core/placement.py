"""Where a new block goes: the policy that decides which slab a class takes it from."""

from collections.abc import Callable
from typing import Protocol

from kvquarry_core.ids import ClassId, SlabId
from kvquarry_core.slabs import SlabMap


class Placement(Protocol):
    """Chooses among the slabs of a class that have a free block."""

    def choose(self, slabs: SlabMap, size_class: ClassId, near: SlabId | None) -> SlabId | None:
        """The slab to take the next block from.

        Args:
            slabs: The map to read; a policy never changes it.
            size_class: The class the block is for.
            near: The slab the request took its last block of this class from, if any.

        Returns:
            One of ``slabs.partial(size_class)``, the slabs in use with a free block, or None when
            there is none: then an idle or unassigned slab is used, or something is evicted.
        """
        ...


class Affinity:
    """The request's own slab first, so that one long-lived block pins few slabs.

    Then the lowest slab with a free block: what is used gathers at one end, and slabs at the other
    empty. (Under churn 0.96 of the pool is used so, 0.94 with the slab that has had a free block
    for longest, see ``loadtest/churn.py``.)
    Source: vllm-project/vllm#46251 (small blocks out of the large block a request already uses).
    """

    def choose(self, slabs: SlabMap, size_class: ClassId, near: SlabId | None) -> SlabId | None:
        """See :meth:`Placement.choose`."""
        if near is not None and near in slabs.partial(size_class):
            return near
        return slabs.lowest_partial(size_class)


class FirstFit:
    """The lowest slab with a free block, whoever uses it: the control to measure against."""

    def choose(self, slabs: SlabMap, size_class: ClassId, near: SlabId | None) -> SlabId | None:
        """See :meth:`Placement.choose`."""
        return slabs.lowest_partial(size_class)


#: The placements on offer by name.
PLACEMENTS: dict[str, Callable[[], Placement]] = {
    "affinity": Affinity,
    "first-fit": FirstFit,
}
