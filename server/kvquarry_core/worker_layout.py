"""What a worker must have built before any block id may reach it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from kvquarry_core.errors import Reason, UsageError
from kvquarry_core.ids import GroupId
from kvquarry_core.plan import Plan


@dataclass(frozen=True, slots=True)
class LayerView:
    """Where one layer's blocks lie in a worker's buffer.

    Attributes:
        layer: The layer's name, for messages.
        group: The KV cache group it belongs to.
        offset_bytes: Byte of block 0.
        stride_bytes: Bytes from one block to the next.
        num_blocks: Blocks the view reaches.
    """

    layer: str
    group: GroupId
    offset_bytes: int
    stride_bytes: int
    num_blocks: int


def planned_views(plan: Plan) -> Iterator[LayerView]:
    """The views a plan asks for: layer ``i`` of every group in region ``i``."""
    for index, (spec, size_class) in enumerate(zip(plan.groups, plan.class_of_group, strict=True)):
        geometry = plan.classes[size_class]
        for layer in range(spec.num_layers):
            yield LayerView(
                f"group {index} layer {layer}",
                GroupId(index),
                layer * plan.region_bytes,
                geometry.stride_bytes,
                geometry.num_blocks,
            )


def check_worker(plan: Plan, views: Sequence[LayerView], buffer_bytes: int) -> None:
    """Refuse a worker whose tensors would put block ids on other bytes than the plan does.

    Raises:
        UsageError: ``LAYOUT_MISMATCH``, naming the layer and both numbers.
    """
    if buffer_bytes < plan.pool_bytes:
        raise _mismatch(f"the buffer has {buffer_bytes} bytes, the plan needs {plan.pool_bytes}")
    for index, spec in enumerate(plan.groups):
        offsets = {view.offset_bytes for view in views if view.group == index}
        num_views = sum(view.group == index for view in views)
        if num_views > spec.num_layers or len(offsets) != num_views:
            raise _mismatch(
                f"group {index} has {num_views} layers at {len(offsets)} offsets, "
                f"the plan has {spec.num_layers}"
            )
    for view in views:
        _check_view(plan, view)


def _check_view(plan: Plan, view: LayerView) -> None:
    if not 0 <= view.group < len(plan.groups):
        raise _mismatch(f"layer {view.layer} is in group {view.group}, which does not exist")
    geometry = plan.classes[plan.class_of_group[view.group]]
    built = (view.stride_bytes, view.num_blocks)
    planned = (geometry.stride_bytes, geometry.num_blocks)
    if built != planned:
        raise _mismatch(
            f"layer {view.layer} has (stride bytes, blocks) {built}, the plan has {planned}"
        )
    region, rest = divmod(view.offset_bytes, plan.region_bytes)
    if rest or region >= plan.num_regions:
        raise _mismatch(
            f"layer {view.layer} starts at byte {view.offset_bytes}, not at a multiple of "
            f"{plan.region_bytes} below {plan.pool_bytes}"
        )


def _mismatch(message: str) -> UsageError:
    return UsageError(Reason.LAYOUT_MISMATCH, message)
