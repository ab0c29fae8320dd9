"""How much of a pool one request takes, in whole slabs: for start-up, the log and auto-fit.

A request's blocks are counted by the rules that admission uses (``kvquarry_core.group_rules``), and
whether they fit is asked of the same plan, so that a pool found large enough at the start never
refuses the same request later.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from kvquarry_core.errors import PlanError, Reason
from kvquarry_core.group_rules import rule_for
from kvquarry_core.ids import GroupId
from kvquarry_core.plan import GroupKind, GroupSpec, Plan, make_plan

#: Growing the memory by what the last plan lacked settles within a few rounds.
_MOST_ROUNDS = 64


@dataclass(frozen=True, slots=True)
class RequestSize:
    """How large one request gets.

    Attributes:
        num_tokens: Its tokens in the end.
        in_flight_tokens: The most of them that are on their way at once, draft tokens included:
            what these read cannot leave a window before.
        encoder_tokens: Tokens of its encoder.
    """

    num_tokens: int
    in_flight_tokens: int
    encoder_tokens: int = 0


def largest_request(vllm_config: Any) -> RequestSize:
    """The largest request that a configuration allows."""
    scheduler, model = vllm_config.scheduler_config, vllm_config.model_config
    return RequestSize(
        num_tokens=model.max_model_len,
        in_flight_tokens=vllm_config.max_in_flight_tokens + vllm_config.num_lookahead_tokens,
        encoder_tokens=scheduler.max_num_encoder_input_tokens if model.is_encoder_decoder else 0,
    )


def counted_group(groups: Sequence[GroupSpec]) -> GroupId:
    """The group in whose blocks vLLM counts a pool: full attention, or else what grows."""
    kinds = [group.kind for group in groups]
    if GroupKind.FULL_ATTENTION in kinds:
        return GroupId(kinds.index(GroupKind.FULL_ATTENTION))
    return GroupId([rule_for(group).grows for group in groups].index(True))


def bytes_per_attention_block(groups: Sequence[GroupSpec]) -> int:
    """Bytes of one attention block in all regions: the unit in which vLLM counts a pool.

    ``--num-gpu-blocks-override N`` gives the pool the memory of ``N`` such blocks.
    """
    num_regions = max(group.num_layers for group in groups)
    kind = groups[counted_group(groups)].kind
    return max(group.page_bytes for group in groups if group.kind is kind) * num_regions


def blocks_of_request(groups: Sequence[GroupSpec], size: RequestSize) -> list[int]:
    """The most blocks one request holds in each group at any time."""
    return [_blocks_of_request(group, size) for group in groups]


def max_concurrency(plan: Plan, size: RequestSize) -> float:
    """How many requests of a size the pool holds at once, by bytes."""
    request_bytes = sum(
        count * size_class.stride_bytes
        for count, size_class in zip(_by_class(plan, size), plan.classes, strict=True)
    )
    reserved_bytes = plan.num_reserved_blocks * plan.classes[0].stride_bytes
    return (plan.region_bytes - reserved_bytes) / request_bytes


def fits_one_request(plan: Plan, size: RequestSize) -> bool:
    """Whether a request of a size can run when it is alone: what its admission would ask, too."""
    return plan.could_hold(_peak_by_class(plan, size))


def memory_for_request(groups: Sequence[GroupSpec], size: RequestSize) -> int:
    """Bytes of memory whose plan holds one request of a size, rarely more than needed."""
    blocks = blocks_of_request(groups, size)
    region_bytes = sum(
        count * group.page_bytes for count, group in zip(blocks, groups, strict=True)
    )
    memory_bytes = region_bytes * max(group.num_layers for group in groups)
    for _ in range(_MOST_ROUNDS):
        memory_bytes = enough_memory(groups, memory_bytes)
        plan = make_plan(groups, memory_bytes)
        if fits_one_request(plan, size):
            return memory_bytes
        memory_bytes += _shortfall_bytes(plan, size)
    raise AssertionError(f"no memory found for {size} in {groups}")


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


def _blocks_of_request(group: GroupSpec, size: RequestSize) -> int:
    rule = rule_for(group)
    num_tokens = size.encoder_tokens if rule.is_of_encoder else size.num_tokens
    blocks = rule.most_new_blocks(0, num_tokens, size.in_flight_tokens)
    # At a boundary a request holds the state it leaves and the one it goes on with, for one step.
    return blocks + (1 if group.kind is GroupKind.RECURRENT_STATE else 0)


def _by_class(plan: Plan, size: RequestSize) -> list[int]:
    return plan.by_class(blocks_of_request(plan.groups, size))


def _peak_by_class(plan: Plan, size: RequestSize) -> list[int]:
    """With a step in flight a request may hold one state more: the one before those it counts."""
    blocks = _by_class(plan, size)
    for group, size_class in zip(plan.groups, plan.class_of_group, strict=True):
        blocks[size_class] += group.kind is GroupKind.RECURRENT_STATE
    return blocks


def _shortfall_bytes(plan: Plan, size: RequestSize) -> int:
    if len(plan.classes) == 1:
        lacking = _peak_by_class(plan, size)[0] - plan.classes[0].num_usable_blocks
        return lacking * plan.block_bytes(plan.class_of_group[0])
    slabs = plan.slabs_for(_peak_by_class(plan, size)) - plan.num_slabs
    return slabs * plan.slab_bytes * plan.num_regions
