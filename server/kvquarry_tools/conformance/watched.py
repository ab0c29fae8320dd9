"""Policies under watch: each answer is judged before the pool acts on it."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from kvquarry_core.eviction import CacheView, Eviction
from kvquarry_core.ids import BlockId, ClassId, SlabId
from kvquarry_core.placement import Placement
from kvquarry_core.relocation import Candidate, Relocation
from kvquarry_core.slabs import SlabMap
from kvquarry_tools.conformance.errors import require


@dataclass(slots=True)
class WatchedPlacement:
    """A placement whose slabs must have room.

    Attributes:
        policy: What is asked.
        num_classes: Size classes of the pool.
        num_calls: How often it was asked.
    """

    policy: Placement
    num_classes: int
    num_calls: int = 0

    def choose(self, slabs: SlabMap, size_class: ClassId, near: SlabId | None) -> SlabId | None:
        """See :meth:`Placement.choose`."""
        self.num_calls += 1
        before = self._seen(slabs)
        chosen = self.policy.choose(slabs, size_class, near)
        require(self._seen(slabs) == before, "a placement changed the slabs it was shown")
        partial = slabs.partial(size_class)
        if chosen is None:
            require(not partial, f"no slab chosen though {list(partial)} have free blocks")
        else:
            require(
                chosen in partial,
                f"slab {chosen} chosen for class {size_class}; in use with a free block are "
                f"{list(partial)}",
            )
        return chosen

    def _seen(self, slabs: SlabMap) -> list[tuple[list[SlabId], list[SlabId], int]]:
        return [
            (list(slabs.partial(one)), list(slabs.partial_idle(one)), slabs.num_free(one))
            for one in map(ClassId, range(self.num_classes))
        ]


@dataclass(slots=True)
class WatchedEviction:
    """An eviction whose victims must be cached blocks of the class.

    Attributes:
        policy: What is asked.
        num_calls: How often it was asked for victims.
    """

    policy: Eviction
    num_calls: int = 0

    def victims(self, cache: CacheView, size_class: ClassId, most: int) -> Sequence[BlockId]:
        """See :meth:`Eviction.victims`."""
        self.num_calls += 1
        cached = list(cache.by_age(size_class))
        chosen = self.policy.victims(cache, size_class, most)
        require(
            list(cache.by_age(size_class)) == cached, "an eviction changed the cache it was shown"
        )
        require(len(chosen) > 0, f"no victim in class {size_class} though blocks are cached")
        require(len(set(chosen)) == len(chosen), f"a victim named twice among {list(chosen)}")
        strange = sorted(set(chosen) - set(cached))
        require(not strange, f"victims {strange} are no cached blocks of class {size_class}")
        highest = max(cache.priority_of(size_class, one) for one in chosen)
        left = [one for one in cached if cache.priority_of(size_class, one) < highest]
        require(set(left) <= set(chosen), f"victims {list(chosen)} leave less wanted ones behind")
        return chosen

    def block_worth(self, cache: CacheView, size_class: ClassId, block: BlockId) -> float:
        """See :meth:`Eviction.block_worth`."""
        return _comparable(self.policy.block_worth(cache, size_class, block), f"block {block}")

    def slab_worth(self, cache: CacheView, size_class: ClassId, slab: SlabId) -> float:
        """See :meth:`Eviction.slab_worth`."""
        return _comparable(self.policy.slab_worth(cache, size_class, slab), f"slab {slab}")


@dataclass(slots=True)
class WatchedRelocation:
    """A relocation that must choose among what it is offered, and no more than is needed.

    Attributes:
        policy: What is asked; None moves nothing.
        num_calls: How often there was a choice.
        num_slabs: Slabs it had cleared.
    """

    policy: Relocation | None
    num_calls: int = 0
    num_slabs: int = field(default=0, init=False)

    @property
    def most_kept_bytes(self) -> int:
        """See :attr:`Relocation.most_kept_bytes`."""
        most_bytes = 0 if self.policy is None else self.policy.most_kept_bytes
        require(most_bytes >= 0, f"at most {most_bytes} bytes of cached content to be moved")
        return most_bytes

    def choose(self, candidates: Sequence[Candidate], num_slabs: int) -> Sequence[Candidate]:
        """See :meth:`Relocation.choose`."""
        if self.policy is None:
            return ()
        self.num_calls += len(candidates) >= num_slabs
        offered = tuple(candidates)
        chosen = self.policy.choose(candidates, num_slabs)
        require(tuple(candidates) == offered, "a relocation changed what it was shown")
        require(set(chosen) <= set(offered), f"{chosen} are not all among the candidates")
        require(len(set(chosen)) == len(chosen), f"a slab to be cleared twice: {chosen}")
        require(
            len(chosen) <= num_slabs, f"{len(chosen)} slabs to be cleared where {num_slabs} lack"
        )
        self.num_slabs += len(chosen)
        return chosen

    def spare(self, candidates: Sequence[Candidate], lost_bytes: int) -> Candidate | None:
        """See :meth:`Relocation.spare`."""
        if self.policy is None:
            return None
        self.num_calls += 1
        offered = tuple(candidates)
        chosen = self.policy.spare(candidates, lost_bytes)
        require(tuple(candidates) == offered, "a relocation changed what it was shown")
        if chosen is not None:
            require(chosen in offered, f"{chosen} is not among the candidates")
            require(
                chosen.cached_bytes <= self.most_kept_bytes,
                f"{chosen} holds more cached content than may be moved",
            )
            self.num_slabs += 1
        return chosen


def _comparable(worth: float, of_what: str) -> float:
    require(not math.isnan(worth), f"the worth of {of_what} is no number")
    return worth
