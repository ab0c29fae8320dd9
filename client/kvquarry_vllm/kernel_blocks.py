"""What vLLM's model runners would work out about kernel blocks, worked out here instead.

A runner asks for the sizes once it knows its attention backends. The selection made then stays with
the runner's own configuration and with its attention groups, and everything that addresses kernel
blocks goes by it: the tensors that are cut, the metadata builders, the block tables of each step, a
draft model's runner, the registration of the worker.
"""

from collections.abc import Sequence

from vllm.v1.kv_cache_interface import AttentionSpec, KVCacheGroupSpec
from vllm.v1.worker.utils import AttentionGroup

from kvquarry_client.kernel_blocks import KernelBlocks, select_kernel_blocks
from kvquarry_core.worker_layout import Arrangement
from kvquarry_vllm.alignment import declared_by
from kvquarry_vllm.config import MixedKVCacheConfig
from kvquarry_vllm.kernel_tables import keep_selected
from kvquarry_vllm.refusals import SettingRefused


def kernel_block_sizes(
    config: MixedKVCacheConfig, attention: Sequence[Sequence[AttentionGroup]]
) -> list[int]:
    """Answer a model runner that asks how to cut a pool's tensors.

    Args:
        config: The runner's own copy. It keeps the selection: who asks again gets the same one.
        attention: By KV cache group, the layers that share a backend. They keep it, too.

    Returns:
        Tokens of a kernel block by KV cache group; states are not split. The groups that vLLM adds
        behind the pool's have no cache and no entry.

    Raises:
        NoCommonKernelBlock: The backends of a group agree on no size.
        SettingRefused: They want a block split whose layers lie together.
    """
    groups = config.kv_cache_groups[: len(config.plan.groups)]
    if config.kernel_blocks is None:
        config.kernel_blocks = tuple(
            _select(config, group, attention[index]) for index, group in enumerate(groups)
        )
    for blocks, sharing in zip(config.kernel_blocks, attention, strict=False):
        for layers in sharing:
            keep_selected(layers, blocks)
    return [
        blocks.kernel_block_tokens if blocks else group.kv_cache_spec.block_size
        for group, blocks in zip(groups, config.kernel_blocks, strict=True)
    ]


def _select(
    config: MixedKVCacheConfig, group: KVCacheGroupSpec, attention: Sequence[AttentionGroup]
) -> KernelBlocks | None:
    spec = group.kv_cache_spec
    if not isinstance(spec, AttentionSpec):
        return None
    declared = [declared_by(layers.backend, layers.kv_cache_spec) for layers in attention]
    blocks = select_kernel_blocks(spec.block_size, declared)
    if blocks.per_block > 1 and config.arrangement is Arrangement.BLOCK_OUTERMOST:
        names = ", ".join(dict.fromkeys(layers.backend.get_name() for layers in attention))
        raise SettingRefused(
            f"--block-size {spec.block_size} cannot be split into the kernel blocks of {names}, "
            f"{blocks.kernel_block_tokens} tokens, where a block's layers lie together. Set "
            f"--block-size {blocks.kernel_block_tokens}, or VLLM_KV_CACHE_LAYOUT to a layout that "
            "starts with L, such as LBNHC."
        )
    return blocks
