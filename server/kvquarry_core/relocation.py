"""Moving blocks together, so that a slab kept alive by few of them becomes free.

A pool that is full of holes refuses a large block although most of its memory is empty, or evicts
content for it. Whichever slab costs least to clear is *evacuated*: what it holds, used or cached,
moves to holes in other slabs of its class. Block ids are exchanged in the accounting; the worker
copies the bytes before anything else of the step. Source: the mobility classes and compaction of
operating systems; measured for KV caches by ``loadtest/churn.py`` and ``kvquarry simulate``.
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
    """A slab that could be cleared.

    Attributes:
        slab: Which one.
        owner: The class it belongs to.
        used_bytes: Bytes of its used blocks, in all regions.
        cached_bytes: Bytes of its cached blocks.
    """

    slab: SlabId
    owner: ClassId
    used_bytes: int
    cached_bytes: int

    @property
    def held_bytes(self) -> int:
        """Bytes of all that is in it."""
        return self.used_bytes + self.cached_bytes


class Relocation(Protocol):
    """Decides what may be moved for one grant that finds no free slab."""

    @property
    def most_kept_bytes(self) -> int:
        """Bytes of cached content that may be copied for what one call answers.

        That is for all slabs of :meth:`choose`, where what is beyond is evicted, and for the one of
        :meth:`spare`.
        """
        ...

    def choose(self, candidates: Sequence[Candidate], num_slabs: int) -> Sequence[Candidate]:
        """Slabs to clear for a grant that does not fit otherwise, the first to be cleared first.

        Never more than asked for, since moves cost; fewer to refuse. Used blocks move; cached
        ones do as far as holes are left, and are evicted where none are.

        Args:
            candidates: Slabs in use that may be cleared, all of them at once.
            num_slabs: How many are needed.
        """
        ...

    def spare(self, candidates: Sequence[Candidate], lost_bytes: int) -> Candidate | None:
        """A slab to clear in place of evicting another one of the same class; None to evict.

        Everything in it moves, but for what nobody will miss: its cached content is
        :attr:`most_kept_bytes` at most. A grant that takes several slabs asks for each.

        Args:
            candidates: Slabs of which one may be cleared: a few with the most holes.
            lost_bytes: Cached content that would be evicted.
        """
        ...


@dataclass(frozen=True, slots=True)
class EvacuateCheapest:
    """The slabs that take the fewest bytes to clear.

    Attributes:
        most_bytes: Bytes of used blocks that are copied for one grant at most.
        most_kept_bytes: Bytes that are copied so that less is evicted, for one grant that does not
            fit otherwise, and for each slab that is spared; by default none.
    """

    most_bytes: int
    most_kept_bytes: int = 0

    def choose(self, candidates: Sequence[Candidate], num_slabs: int) -> Sequence[Candidate]:
        """See :meth:`Relocation.choose`."""
        cheapest = sorted(candidates, key=_by_cost_of_need)[:num_slabs]
        enough = sum(one.used_bytes for one in cheapest) <= self.most_bytes
        return cheapest if enough else ()

    def spare(self, candidates: Sequence[Candidate], lost_bytes: int) -> Candidate | None:
        """See :meth:`Relocation.spare`."""
        del lost_bytes  # Whatever it is, to compute it anew takes far longer than a copy.
        cheapest = min(candidates, key=lambda one: (one.held_bytes, -one.slab))
        return cheapest if cheapest.held_bytes <= self.most_kept_bytes else None


def _by_cost_of_need(one: Candidate) -> tuple[int, int, int]:
    return one.used_bytes, one.cached_bytes, -one.slab


#: The relocations on offer by name; None for moving nothing.
RELOCATIONS: dict[str, Callable[[], Relocation | None]] = {
    "off": lambda: None,
    "evacuate": lambda: EvacuateCheapest(most_bytes=64 << 20, most_kept_bytes=64 << 20),
}
