"""Moving live blocks together, so that a slab kept alive by few of them becomes free.

A pool that is full of holes refuses a large block although most of its memory is empty. Whichever
slab costs least to clear is *evacuated*: its used blocks move to holes in other slabs of its class.
Block ids are exchanged in the accounting; the worker copies the bytes before anything else of the
step. Source: the mobility classes and compaction of operating systems; measured for KV caches by
``loadtest/churn.py``.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from kvquarry_core.ids import BlockId, ClassId, SlabId


@dataclass(frozen=True, slots=True)
class Move:
    """A block's content goes from one block to another of the same class.

    Attributes:
        size_class: The class of both.
        source: Where it was; free from now on.
        target: Where it is.
    """

    size_class: ClassId
    source: BlockId
    target: BlockId


@dataclass(frozen=True, slots=True)
class Candidate:
    """A slab in use that could be cleared.

    Attributes:
        slab: Which one.
        owner: The class it belongs to.
        moved_bytes: Bytes of its used blocks, in all regions.
    """

    slab: SlabId
    owner: ClassId
    moved_bytes: int


class Relocation(Protocol):
    """Decides what may be moved for one grant that does not fit otherwise."""

    def choose(self, candidates: Sequence[Candidate], num_slabs: int) -> Sequence[Candidate]:
        """Some of the candidates, the first to be cleared first.

        Never more than asked for, since moves cost; fewer to refuse.

        Args:
            candidates: Slabs that may be cleared, all of them at once.
            num_slabs: How many are needed.
        """
        ...


@dataclass(frozen=True, slots=True)
class EvacuateCheapest:
    """The slabs that take the fewest bytes to clear.

    Attributes:
        most_bytes: Copied for one grant at most.
    """

    most_bytes: int

    def choose(self, candidates: Sequence[Candidate], num_slabs: int) -> Sequence[Candidate]:
        """See :meth:`Relocation.choose`."""
        cheapest = sorted(candidates, key=lambda one: (one.moved_bytes, -one.slab))[:num_slabs]
        enough = sum(one.moved_bytes for one in cheapest) <= self.most_bytes
        return cheapest if enough else ()


#: The relocations on offer by name; None for moving nothing.
RELOCATIONS: dict[str, Callable[[], Relocation | None]] = {
    "off": lambda: None,
    "evacuate": lambda: EvacuateCheapest(most_bytes=64 << 20),
}
