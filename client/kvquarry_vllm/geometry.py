"""Where each group's layers lie in the buffer, as vLLM wants to be told.

Blocks of one class lie one stride apart in every layer, and where the strides of two classes meet,
they meet in all layers alike; a layout may have the layers outside the blocks or inside them
(:mod:`kvquarry_core.worker_layout`). vLLM builds the aliased views from these numbers by itself.
"""

from collections.abc import Sequence

from vllm.v1.kv_cache_interface import KVCacheGroupSpec, KVCacheTensor
from vllm.v1.kv_cache_layout import KVCacheLayout

from kvquarry_core.ids import GroupId
from kvquarry_core.plan import Plan
from kvquarry_core.worker_layout import Arrangement
from kvquarry_vllm.refusals import SettingRefused


def cache_tensors(
    plan: Plan, groups: Sequence[KVCacheGroupSpec], layout: KVCacheLayout
) -> list[KVCacheTensor]:
    """One entry per group; all of them lie in one buffer of ``plan.pool_bytes``.

    Raises:
        SettingRefused: In this layout a block is not one stretch of bytes in a layer.
    """
    if not layout.is_block_compact:
        raise SettingRefused(
            f"kvquarry cannot work with the KV cache layout {layout.name}: heads lie outside the "
            "blocks there. Set VLLM_KV_CACHE_LAYOUT to LBHNC, LBNHC, BLHNC or BLNHC, whichever "
            "the attention backend supports, or unset KVQUARRY_TARGET to run stock vLLM."
        )
    return [
        _group_tensor(plan, GroupId(index), group, layout) for index, group in enumerate(groups)
    ]


def arrangement_of(layout: KVCacheLayout) -> Arrangement:
    """Whether a layer's blocks lie together in this layout, or a block's layers."""
    if layout.is_block_outermost:
        return Arrangement.BLOCK_OUTERMOST
    return Arrangement.LAYER_OUTERMOST


def _group_tensor(
    plan: Plan, index: GroupId, group: KVCacheGroupSpec, layout: KVCacheLayout
) -> KVCacheTensor:
    stride_bytes = plan.classes[plan.class_of_group[index]].stride_bytes
    if arrangement_of(layout) is Arrangement.BLOCK_OUTERMOST:
        layer_stride, block_stride = stride_bytes, stride_bytes * plan.num_regions
    else:
        layer_stride, block_stride = plan.region_bytes, stride_bytes
    return KVCacheTensor(
        size=plan.pool_bytes,
        layers=list(group.layer_names),
        layer_stride=layer_stride,
        block_stride=block_stride,
    )
