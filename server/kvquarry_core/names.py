"""Names of content that both sides have since an admission: rows are committed by their place.

A request is looked up by its hashes, and most of them name what it commits soon afterwards. Whoever
owns the pool remembers those of the tokens that were hit or granted blocks, which are never more
than the pool has room for; so a client need not send them again.
"""

from collections.abc import Sequence

from kvquarry_core.ids import BlockHash, KindId
from kvquarry_core.messages import Admission
from kvquarry_core.plan import GroupKind, Plan


def num_remembered(plan: Plan, admission: Admission) -> int:
    """How many of the hashes that a request was admitted with are remembered, the first ones."""
    columns = zip(plan.groups, admission.hit_blocks, admission.grant.blocks, strict=True)
    num_tokens = max(
        (
            spec.block_tokens * (len(hit) + len(granted))
            for spec, hit, granted in columns
            if spec.kind is GroupKind.FULL_ATTENTION
        ),
        default=0,
    )
    return num_tokens // plan.hash_tokens


def names_at(
    plan: Plan, kind: KindId, hashes: Sequence[BlockHash], place: int, num_rows: int
) -> Sequence[BlockHash]:
    """The names of neighbouring rows of a kind, the first of which is ``hashes[place]``."""
    distance = plan.spec_of_kind(kind).block_tokens // plan.hash_tokens
    return hashes[place : place + num_rows * distance : distance]
