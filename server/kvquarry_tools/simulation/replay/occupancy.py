"""What a pool's bytes are at one moment."""

from collections.abc import Iterable
from dataclasses import dataclass

from kvquarry_core.ids import ClassId
from kvquarry_core.plan import GroupKind, GroupSpec, Plan
from kvquarry_core.pool import Pool


@dataclass(frozen=True, slots=True)
class Occupancy:
    """Shares of the pool; with what is unassigned and the null blocks they add up to 1.

    Attributes:
        now_s: When, on the replay's clock.
        content: Written by running requests, shared blocks counted once.
        internal: In their blocks but unused: padding, tails, blocks granted ahead.
        cached: Findable content that nobody uses now.
        external: Free, but in slabs that belong to a class.
    """

    now_s: float
    content: float
    internal: float
    cached: float
    external: float


def measure(parts: Iterable[Pool], num_empty_tokens: int, now_s: float) -> Occupancy:
    """Look at one or several pools that are one.

    Args:
        parts: The pools.
        num_empty_tokens: Slots that running requests have and do not use yet.
        now_s: The replay's clock.
    """
    total = content = used = cached = external = token_bytes = 0
    for pool in parts:
        plan = pool.plan
        total += plan.pool_bytes
        token_bytes += _token_bytes(plan.groups)
        for index in range(len(plan.classes)):
            size_class, block_bytes = ClassId(index), plan.block_bytes(ClassId(index))
            num_used = _num_used(pool, size_class)
            used += (num_used + pool.store.num_granted[index]) * block_bytes
            content += int(num_used * _content_bytes(plan, size_class))
            cached += pool.store.cache.num_cached(size_class) * block_bytes
            external += pool.store.slabs.num_free(size_class) * block_bytes
    content -= min(num_empty_tokens * token_bytes, content)
    return Occupancy(
        now_s, content / total, (used - content) / total, cached / total, external / total
    )


def _num_used(pool: Pool, size_class: ClassId) -> int:
    """Referenced blocks of a class; nobody references the null blocks."""
    store, per_slab = pool.store, pool.plan.classes[size_class].blocks_per_slab
    num_idle = store.slabs.num_free(size_class) + store.cache.num_cached(size_class)
    num_idle += 0 if size_class else pool.plan.num_reserved_blocks
    num_carved = store.slabs.num_carved(size_class) * per_slab
    return num_carved - num_idle - pool.store.num_granted[size_class]


def _content_bytes(plan: Plan, size_class: ClassId) -> float:
    """Bytes of content in a full block of a class: the mean of the groups that share it."""
    groups = [
        group
        for group, mine in zip(plan.groups, plan.class_of_group, strict=True)
        if mine == size_class
    ]
    return sum(group.page_bytes * group.num_layers for group in groups) / len(groups)


def _token_bytes(groups: Iterable[GroupSpec]) -> int:
    return sum(
        group.page_bytes * group.num_layers // group.block_tokens
        for group in groups
        if group.kind is not GroupKind.RECURRENT_STATE
    )
