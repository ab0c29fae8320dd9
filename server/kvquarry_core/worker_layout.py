"""What a worker must have built before any block id may reach it.

A worker whose layer begins elsewhere, or whose blocks are wider, would write into blocks of other
requests. Two arrangements put block ids on the same bytes for every class::

    layer outermost    | layer 0: b0 b1 b2 ... | layer 1: b0 b1 b2 ... |
    block outermost    | b0: layer 0, layer 1 | b1: layer 0, layer 1 | ...
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum

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


class Arrangement(Enum):
    """Whether a layer's blocks lie together, or a block's layers."""

    LAYER_OUTERMOST = "layer outermost"
    BLOCK_OUTERMOST = "block outermost"


def planned_views(
    plan: Plan, arrangement: Arrangement = Arrangement.LAYER_OUTERMOST
) -> Iterator[LayerView]:
    """The views a plan asks for, layer by layer of every group."""
    for index, (spec, size_class) in enumerate(zip(plan.groups, plan.class_of_group, strict=True)):
        geometry = plan.classes[size_class]
        for layer in range(spec.num_layers):
            if arrangement is Arrangement.LAYER_OUTERMOST:
                offset, stride = layer * plan.region_bytes, geometry.stride_bytes
            else:
                offset = layer * geometry.stride_bytes
                stride = geometry.stride_bytes * plan.num_regions
            name = f"group {index} layer {layer}"
            yield LayerView(name, GroupId(index), offset, stride, geometry.num_blocks)


def check_worker(plan: Plan, views: Sequence[LayerView], buffer_bytes: int) -> None:
    """Refuse a worker whose tensors would put block ids on other bytes than the plan does.

    A worker may lack layers, but no whole group; it may have none twice.

    Raises:
        UsageError: ``LAYOUT_MISMATCH``, naming the layer, what it has and what the plan has.
    """
    if buffer_bytes < plan.pool_bytes:
        raise _mismatch(f"the buffer has {buffer_bytes} bytes; the plan needs {plan.pool_bytes}")
    _check_groups(plan, views)
    mistakes = [_first_mistake(plan, views, arrangement) for arrangement in Arrangement]
    if all(mistakes):
        raise _mismatch(f"{mistakes[0]} (or, with blocks outermost, {mistakes[1]})")


def _check_groups(plan: Plan, views: Sequence[LayerView]) -> None:
    names: set[str] = set()
    places: set[tuple[int, int]] = set()
    for view in views:
        if not 0 <= view.group < len(plan.groups):
            raise _mismatch(
                f"layer {view.layer} names group {view.group}; groups run from 0 to "
                f"{len(plan.groups) - 1}"
            )
        if view.layer in names:
            raise _mismatch(f"layer {view.layer} is listed twice")
        if (view.group, view.offset_bytes) in places:
            raise _mismatch(f"layer {view.layer} has the bytes of another layer of its group")
        names.add(view.layer)
        places.add((view.group, view.offset_bytes))
    if missing := set(range(len(plan.groups))) - {group for group, _ in places}:
        raise _mismatch(f"no layer of group {min(missing)} is listed")


def _first_mistake(plan: Plan, views: Sequence[LayerView], arrangement: Arrangement) -> str | None:
    planned: dict[int, dict[int, LayerView]] = {}
    for place in planned_views(plan, arrangement):
        planned.setdefault(place.group, {})[place.offset_bytes] = place
    for view in views:
        places = planned[view.group]
        geometry = next(iter(places.values()))
        found, wanted = (
            (view.stride_bytes, view.num_blocks),
            (geometry.stride_bytes, geometry.num_blocks),
        )
        if found != wanted:
            return f"layer {view.layer} has (stride bytes, blocks) {found}; the plan has {wanted}"
        if view.offset_bytes not in places:
            return (
                f"layer {view.layer} begins at byte {view.offset_bytes}; "
                f"the plan has {sorted(places)}"
            )
    return None


def _mismatch(message: str) -> UsageError:
    return UsageError(Reason.LAYOUT_MISMATCH, message)
