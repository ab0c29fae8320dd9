"""How much of a pool one request takes, in whole slabs: for start-up, the log and auto-fit.

A request's blocks are counted by the rules that admission uses (``kvquarry_core.group_rules``), so
that a pool found large enough at the start never refuses the same request later.
"""

from collections.abc import Sequence

from kvquarry_core.errors import PlanError, Reason
from kvquarry_core.group_rules import rule_for
from kvquarry_core.plan import GroupKind, GroupSpec, Plan, make_plan

#: Growing the memory by what the last plan lacked settles within a few rounds.
_MOST_ROUNDS = 64


def bytes_per_attention_block(groups: Sequence[GroupSpec]) -> int:
    """Bytes of one attention block in all regions: the unit in which vLLM counts a pool.

    ``--num-gpu-blocks-override N`` gives the pool the memory of ``N`` such blocks.
    """
    num_regions = max(group.num_layers for group in groups)
    pages = (g.page_bytes for g in groups if g.kind is GroupKind.FULL_ATTENTION)
    return max(pages) * num_regions


def blocks_of_request(groups: Sequence[GroupSpec], num_tokens: int) -> list[int]:
    """The most blocks one request of ``num_tokens`` holds in each group at any time."""
    return [_blocks_of_request(group, num_tokens) for group in groups]


def slabs_of_request(plan: Plan, num_tokens: int) -> int:
    """Slabs that hold one request of ``num_tokens`` and the null blocks."""
    blocks = _peak_by_class(plan, num_tokens)
    in_slab_0 = plan.classes[0].blocks_per_slab - plan.num_reserved_blocks
    blocks[0] = max(blocks[0] - max(in_slab_0, 0), 0)
    return 1 + sum(
        -(-count // size_class.blocks_per_slab)
        for count, size_class in zip(blocks, plan.classes, strict=True)
    )


def max_concurrency(plan: Plan, num_tokens: int) -> float:
    """How many requests of ``num_tokens`` the pool holds at once, by bytes."""
    request_bytes = sum(
        count * size_class.stride_bytes
        for count, size_class in zip(_by_class(plan, num_tokens), plan.classes, strict=True)
    )
    reserved_bytes = plan.num_reserved_blocks * plan.classes[0].stride_bytes
    return (plan.region_bytes - reserved_bytes) / request_bytes


def fits_one_request(plan: Plan, num_tokens: int) -> bool:
    """Whether a request of ``num_tokens`` can run when it is alone."""
    if len(plan.classes) == 1:
        return _peak_by_class(plan, num_tokens)[0] <= plan.classes[0].num_usable_blocks
    return slabs_of_request(plan, num_tokens) <= plan.num_slabs


def memory_for_request(groups: Sequence[GroupSpec], num_tokens: int) -> int:
    """Bytes of memory whose plan holds one request of ``num_tokens``, rarely more than needed."""
    blocks = blocks_of_request(groups, num_tokens)
    region_bytes = sum(
        count * group.page_bytes for count, group in zip(blocks, groups, strict=True)
    )
    memory_bytes = region_bytes * max(group.num_layers for group in groups)
    for _ in range(_MOST_ROUNDS):
        memory_bytes = enough_memory(groups, memory_bytes)
        plan = make_plan(groups, memory_bytes)
        if fits_one_request(plan, num_tokens):
            return memory_bytes
        memory_bytes += _shortfall_bytes(plan, num_tokens)
    raise AssertionError(f"no memory found for {num_tokens} tokens in {groups}")


def enough_memory(groups: Sequence[GroupSpec], memory_bytes: int) -> int:
    """``memory_bytes``, or the least memory above it that has a plan at all."""
    step_bytes = bytes_per_attention_block(groups)
    while not _has_plan(groups, memory_bytes):
        memory_bytes += step_bytes
    return memory_bytes


def _has_plan(groups: Sequence[GroupSpec], memory_bytes: int) -> bool:
    try:
        make_plan(groups, memory_bytes)
    except PlanError as error:
        if error.reason is Reason.POOL_TOO_SMALL:
            return False
        raise
    return True


def _blocks_of_request(group: GroupSpec, num_tokens: int) -> int:
    blocks = rule_for(group).num_new_blocks(0, num_tokens)
    # At a boundary a request holds the state it leaves and the one it goes on with, for one step.
    return blocks + (1 if group.kind is GroupKind.RECURRENT_STATE else 0)


def _by_class(plan: Plan, num_tokens: int) -> list[int]:
    blocks = [0] * len(plan.classes)
    counts = blocks_of_request(plan.groups, num_tokens)
    for size_class, count in zip(plan.class_of_group, counts, strict=True):
        blocks[size_class] += count
    return blocks


def _peak_by_class(plan: Plan, num_tokens: int) -> list[int]:
    """With a step in flight a request may hold one state more: the one before those it counts."""
    blocks = _by_class(plan, num_tokens)
    for group, size_class in zip(plan.groups, plan.class_of_group, strict=True):
        blocks[size_class] += group.kind is GroupKind.RECURRENT_STATE
    return blocks


def _shortfall_bytes(plan: Plan, num_tokens: int) -> int:
    if len(plan.classes) == 1:
        lacking = _peak_by_class(plan, num_tokens)[0] - plan.classes[0].num_usable_blocks
        return lacking * plan.block_bytes(plan.class_of_group[0])
    slabs = slabs_of_request(plan, num_tokens) - plan.num_slabs
    return slabs * plan.slab_bytes * plan.num_regions
