"""Groups and plans."""

from kvquarry.v1alpha import plan_pb2
from kvquarry_core.errors import PlanError, Reason
from kvquarry_core.plan import GroupKind, GroupSpec, Plan, SizeClass

_WIRE_KIND_OF = {
    GroupKind.FULL_ATTENTION: plan_pb2.GROUP_KIND_FULL_ATTENTION,
    GroupKind.RECURRENT_STATE: plan_pb2.GROUP_KIND_RECURRENT_STATE,
    GroupKind.SLIDING_WINDOW: plan_pb2.GROUP_KIND_SLIDING_WINDOW,
    GroupKind.CHUNKED_LOCAL: plan_pb2.GROUP_KIND_CHUNKED_LOCAL,
    GroupKind.CROSS_ATTENTION: plan_pb2.GROUP_KIND_CROSS_ATTENTION,
    GroupKind.SCRATCH: plan_pb2.GROUP_KIND_SCRATCH,
}
_KIND_OF: dict[int, GroupKind] = {wire: kind for kind, wire in _WIRE_KIND_OF.items()}


def group_from_wire(message: plan_pb2.GroupSpec) -> GroupSpec:
    """One KV cache group.

    Raises:
        PlanError: Of a kind that this service does not know.
    """
    kind = _KIND_OF.get(message.kind)
    if kind is None:
        raise PlanError(
            Reason.INVALID_GROUPS,
            f"group kind {message.kind} is not one this service knows: "
            f"{', '.join(kind.name for kind in GroupKind)}",
        )
    return GroupSpec(
        kind=kind,
        block_tokens=message.block_tokens,
        page_bytes=message.page_bytes,
        num_layers=message.layer_count,
        num_speculative_blocks=message.speculative_block_count,
        alignment_bytes=message.alignment_bytes,
        window_tokens=message.window_token_count,
        is_draft=message.is_draft,
    )


def plan_to_wire(plan: Plan) -> plan_pb2.Plan:
    """How a pool is cut."""
    return plan_pb2.Plan(
        groups=[_group_to_wire(group) for group in plan.groups],
        size_classes=[_size_class_to_wire(size_class) for size_class in plan.classes],
        class_of_group=plan.class_of_group,
        region_count=plan.num_regions,
        slab_size_bytes=plan.slab_bytes,
        slab_count=plan.num_slabs,
        pool_size_bytes=plan.pool_bytes,
    )


def _group_to_wire(group: GroupSpec) -> plan_pb2.GroupSpec:
    return plan_pb2.GroupSpec(
        kind=_WIRE_KIND_OF[group.kind],
        block_tokens=group.block_tokens,
        page_bytes=group.page_bytes,
        layer_count=group.num_layers,
        speculative_block_count=group.num_speculative_blocks,
        alignment_bytes=group.alignment_bytes,
        window_token_count=group.window_tokens,
        is_draft=group.is_draft,
    )


def _size_class_to_wire(size_class: SizeClass) -> plan_pb2.SizeClass:
    return plan_pb2.SizeClass(
        page_bytes=size_class.page_bytes,
        stride_bytes=size_class.stride_bytes,
        blocks_per_slab=size_class.blocks_per_slab,
        block_count=size_class.num_blocks,
        usable_block_count=size_class.num_usable_blocks,
    )
