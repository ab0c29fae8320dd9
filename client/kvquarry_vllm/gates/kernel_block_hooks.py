"""vLLM's model runners address kernel blocks as :mod:`kvquarry_vllm.kernel_blocks` says.

Both generations of runners make the same attention groups; where they ask for sizes differs. Pools
of stock vLLM go straight through.
"""

import functools
from collections.abc import Callable
from typing import Any

from vllm.v1.kv_cache_interface import KVCacheConfig

from kvquarry_vllm.config import MixedKVCacheConfig
from kvquarry_vllm.gates.hooks import Hook
from kvquarry_vllm.kernel_tables import (
    answering_for,
    kernel_table,
    selected_for,
    selected_tokens,
)

Function = Callable[..., Any]

_GROUPS = "vllm.v1.worker.utils"


def kernel_block_hooks() -> tuple[Hook, ...]:
    """The hooks of a worker whose runner selects no size and converts no table itself."""
    return (
        Hook("vllm.v1.worker.gpu_model_runner", "prepare_kernel_block_sizes", selecting),
        Hook("vllm.v1.worker.gpu.attn_utils", "prepare_kernel_block_sizes", selecting),
        Hook(_GROUPS, "AttentionGroup.create_metadata_builders", building),
        Hook(_GROUPS, "select_common_block_size", repeating),
        Hook(_GROUPS, "AttentionGroup.map_to_kernel_block_table", converting),
    )


def selecting(original: Function) -> Function:
    """``prepare_kernel_block_sizes``: once in a runner's life, before it cuts any tensor."""

    @functools.wraps(original)
    def prepare_kernel_block_sizes(kv_cache_config: KVCacheConfig, attn_groups: Any) -> list[int]:
        if not isinstance(kv_cache_config, MixedKVCacheConfig):
            return list(original(kv_cache_config, attn_groups))
        from kvquarry_vllm.kernel_blocks import kernel_block_sizes

        return kernel_block_sizes(kv_cache_config, attn_groups)

    return prepare_kernel_block_sizes


def building(original: Function) -> Function:
    """``AttentionGroup.create_metadata_builders``: selects again, for its own backend alone."""

    @functools.wraps(original)
    def create_metadata_builders(self: Any, *args: Any, **kwargs: Any) -> None:
        with answering_for(self):
            original(self, *args, **kwargs)

    return create_metadata_builders


def repeating(original: Function) -> Function:
    """``select_common_block_size``, as a group asks it: what is selected is only said again."""

    @functools.wraps(original)
    def select_common_block_size(*args: Any, **kwargs: Any) -> int:
        tokens = selected_tokens()
        return int(original(*args, **kwargs)) if tokens is None else tokens

    return select_common_block_size


def converting(original: Function) -> Function:
    """``AttentionGroup.map_to_kernel_block_table``: at every step, for every group that splits."""

    @functools.wraps(original)
    def map_to_kernel_block_table(self: Any, block_table: Any, ubatch_idx: int = 0) -> Any:
        blocks = selected_for(self)
        if blocks is None:
            return original(self, block_table, ubatch_idx)
        return kernel_table(self, blocks, block_table, ubatch_idx)

    return map_to_kernel_block_table
