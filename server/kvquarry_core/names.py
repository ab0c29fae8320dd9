"""Names of content that both sides have since an admission: rows are committed by their place.

A request is looked up by its hashes, and most of them name what it commits soon afterwards. Whoever
owns the pool remembers those of the tokens that blocks were granted for, which are never more than
the pool has blocks for; so a client need not send them again::

    hashes       0 ........ hit ........ granted ........ end of the text
    remembered               |-------------|
"""

from collections.abc import Sequence
from dataclasses import dataclass

from kvquarry_core.ids import BlockHash, KindId
from kvquarry_core.messages import Admission
from kvquarry_core.plan import GroupKind, Plan


def remembered(plan: Plan, admission: Admission) -> range:
    """Where those hashes that are remembered stand among all that a request was admitted with."""
    granted_tokens = max(
        (
            spec.block_tokens * len(blocks)
            for spec, blocks in zip(plan.groups, admission.grant.blocks, strict=True)
            if spec.kind is GroupKind.FULL_ATTENTION
        ),
        default=0,
    )
    first = admission.hit_tokens // plan.hash_tokens
    return range(first, first + granted_tokens // plan.hash_tokens)


def places_of(plan: Plan, kind: KindId, first: int, num_rows: int) -> range:
    """Where the names of neighbouring rows of a kind stand, the first of which is at ``first``."""
    distance = plan.spec_of_kind(kind).block_tokens // plan.hash_tokens
    return range(first, first + num_rows * distance, distance)


@dataclass(frozen=True, slots=True)
class RememberedNames:
    """Of one request.

    Attributes:
        first: Where the first of them stands.
        hashes: They themselves.
    """

    first: int
    hashes: Sequence[BlockHash]

    @classmethod
    def of(cls, places: range, hashes: Sequence[BlockHash]) -> "RememberedNames":
        """Those at some places."""
        return cls(places.start, hashes[places.start : places.stop])

    def at(self, places: range) -> Sequence[BlockHash]:
        """Those at some of the places; fewer where not all of them are remembered."""
        start, stop = places.start - self.first, places.stop - self.first
        return self.hashes[start : stop : places.step] if start >= 0 else ()


NO_NAMES = RememberedNames(0, ())
