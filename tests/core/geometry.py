"""The laws of a plan's geometry, checked one by one."""

import math
from collections.abc import Sequence
from dataclasses import replace

from kvquarry_core.ids import ClassId
from kvquarry_core.plan import GroupKind, GroupSpec, Plan, SizeClass


def check_geometry(plan: Plan, groups: Sequence[GroupSpec], pool_bytes: int) -> None:
    """Assert every law of the geometry that ``groups`` and ``pool_bytes`` ask for."""
    check_memory(plan, groups, pool_bytes)
    for size_class in plan.classes:
        check_class(plan, size_class)
    check_groups(plan, groups)
    check_null_blocks(plan)


def check_memory(plan: Plan, groups: Sequence[GroupSpec], pool_bytes: int) -> None:
    """The plan stays within its memory and leaves less than one slab of it unused."""
    assert plan.num_regions == max(group.num_layers for group in groups)
    assert plan.region_bytes == plan.num_slabs * plan.slab_bytes
    assert plan.pool_bytes == plan.region_bytes * plan.num_regions
    assert 0 <= pool_bytes - plan.pool_bytes < (plan.slab_bytes + 1) * plan.num_regions


def check_class(plan: Plan, size_class: SizeClass) -> None:
    """Strides divide slabs, so block ``i`` starts at ``i * stride`` and lies in one slab."""
    assert 0 < size_class.page_bytes <= size_class.stride_bytes
    assert size_class.blocks_per_slab * size_class.stride_bytes == plan.slab_bytes
    assert size_class.num_blocks == size_class.blocks_per_slab * plan.num_slabs
    assert size_class.num_blocks * size_class.stride_bytes <= plan.region_bytes
    assert 1 <= size_class.num_usable_blocks < size_class.num_blocks


def check_groups(plan: Plan, groups: Sequence[GroupSpec]) -> None:
    """Every group has the class of its page, the kind of its equals, and whole hash units."""
    assert plan.groups == tuple(groups)
    for group, size_class in zip(groups, plan.class_of_group, strict=True):
        geometry = plan.classes[size_class]
        assert geometry.page_bytes == group.page_bytes
        if group.kind is not GroupKind.RECURRENT_STATE:
            assert geometry.stride_bytes == group.page_bytes, "kernels split attention blocks"
    never_hit = (GroupKind.CROSS_ATTENTION, GroupKind.SCRATCH)
    hashed = [group.block_tokens for group in groups if group.kind not in never_hit]
    if hashed:
        assert plan.hash_tokens == math.gcd(*hashed)
    assert sorted(group for kind in plan.kinds for group in kind) == list(range(len(groups)))
    alike = [replace(group, num_layers=1) for group in groups]
    for kind in plan.kinds:
        assert len({alike[group] for group in kind}) == 1
        assert len({plan.class_of_group[group] for group in kind}) == 1
    assert len(plan.kinds) == len(set(alike))
    is_attention = [plan.groups[kind[0]].kind is GroupKind.FULL_ATTENTION for kind in plan.kinds]
    assert is_attention == sorted(is_attention, reverse=True), "attention kinds come first"


def check_alignment(plan: Plan) -> None:
    """A stride that is padded is padded to what all groups of its class ask for."""
    for group, size_class in zip(plan.groups, plan.class_of_group, strict=True):
        geometry = plan.classes[size_class]
        if geometry.stride_bytes != geometry.page_bytes:
            assert geometry.stride_bytes % group.alignment_bytes == 0, f"{group}: {geometry}"


def check_null_blocks(plan: Plan) -> None:
    """Null blocks of all classes lie in the reserved blocks of class 0, all of them in slab 0."""
    largest = max(size_class.stride_bytes for size_class in plan.classes)
    smallest = plan.classes[0].stride_bytes
    reserved_bytes = plan.num_reserved_blocks * smallest
    assert reserved_bytes - smallest < largest <= reserved_bytes <= plan.slab_bytes
    for index, size_class in enumerate(plan.classes):
        # Slab 0 belongs to class 0 for ever.
        lost = size_class.blocks_per_slab if index else plan.num_reserved_blocks
        assert size_class.num_usable_blocks == size_class.num_blocks - lost


def padding_of(plan: Plan, size_class: ClassId) -> float:
    """The share of a block's bytes that hold nothing."""
    geometry = plan.classes[size_class]
    return 1 - geometry.page_bytes / geometry.stride_bytes
