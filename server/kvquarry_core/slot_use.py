"""How much of the blocks in use is written: their number alone does not say (vLLM issue 57336).

The engine counts *empty slots*: token slots of blocks that its requests have spent and that hold no
token yet. Only a request's last blocks have any. What several requests share is full, so nothing
is counted twice, and a difference is exact::

    used     blocks that requests have spent or were granted, and leased states
    written  used - granted - empty: a block counts by the share of its slots that hold a token

A state has no slots of its own. One that is leased and that no request runs on counts as empty as a
whole: as many slots as its group has tokens per block. Which one that is only the engine knows.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from kvquarry_core.errors import Reason, UsageError
from kvquarry_core.ids import ClassId, KindId
from kvquarry_core.plan import Plan
from kvquarry_core.pool import Pool
from kvquarry_core.usage import usage_of


@dataclass(frozen=True, slots=True)
class SlotUse:
    """What an engine's count of empty slots says of its pool.

    Attributes:
        empty_slots: Token slots in blocks in use that hold nothing yet, by size class.
        written_bytes: Bytes in use that are neither empty nor granted to requests that have not
            spent them; padding is written with the slots that it belongs to.
    """

    empty_slots: tuple[int, ...]
    written_bytes: int


def check_empty_slots(plan: Plan, by_kind: Sequence[int]) -> None:
    """There is one count for each kind, and no more slots are empty than the pool has.

    Raises:
        UsageError: The counts are of another pool.
    """
    if len(by_kind) != len(plan.kinds):
        raise UsageError(
            Reason.INVALID_ARGUMENT,
            f"the pool has {len(plan.kinds)} kinds of groups, not {len(by_kind)}",
        )
    for index, num_slots in enumerate(by_kind):
        most = _most_slots(plan, KindId(index))
        if not 0 <= num_slots <= most:
            raise UsageError(
                Reason.INVALID_ARGUMENT,
                f"kind {index} has 0 to {most} token slots that may be empty, not {num_slots}",
            )


def slot_use_of(pool: Pool, by_kind: Sequence[int]) -> SlotUse:
    """What was told of each kind, by size class and in bytes.

    The count may be somewhat older than the pool: what is written never falls below nothing.
    """
    plan = pool.plan
    empty_slots, idle_bytes = [0] * len(plan.classes), _unspent_bytes(pool)
    for index, num_slots in enumerate(by_kind):
        kind = KindId(index)
        size_class, num_members = plan.class_of_kind(kind), len(plan.kinds[index])
        empty_slots[size_class] += num_slots * num_members
        bytes_of_all = num_slots * num_members * plan.block_bytes(size_class)
        idle_bytes += bytes_of_all // plan.spec_of_kind(kind).block_tokens
    return SlotUse(tuple(empty_slots), max(usage_of(pool).used_bytes - idle_bytes, 0))


def _unspent_bytes(pool: Pool) -> int:
    """Bytes that requests were granted and have not spent; leased states count as granted."""
    leased = pool.plan.by_class([len(blocks) for blocks in pool.lease.blocks])
    return sum(
        (granted - of_lease) * pool.plan.block_bytes(ClassId(index))
        for index, (granted, of_lease) in enumerate(
            zip(pool.store.num_granted, leased, strict=True)
        )
    )


def _most_slots(plan: Plan, kind: KindId) -> int:
    """Slots of a kind whose rows fill the whole pool."""
    num_blocks = plan.classes[plan.class_of_kind(kind)].num_usable_blocks
    return num_blocks // len(plan.kinds[kind]) * plan.spec_of_kind(kind).block_tokens
