"""vLLM 0.32: planning is a handful of functions in one module, replaced one by one."""

import functools
from typing import Any

from vllm.v1.kv_cache_interface import KVCacheConfig, KVCacheGroupSpec, KVCacheSpec

from kvquarry_vllm import capacity
from kvquarry_vllm.gates import replacements
from kvquarry_vllm.gates.hooks import Hook
from kvquarry_vllm.gates.replacements import Function
from kvquarry_vllm.settings import Settings

_PLANNING = "vllm.v1.core.kv_cache_utils"


def hooks(settings: Settings) -> tuple[Hook, ...]:
    """All hooks of this version."""
    return (
        *replacements.shared_hooks(settings),
        Hook(_PLANNING, "get_kv_cache_groups", grouping),
        Hook(_PLANNING, "get_kv_cache_config_from_groups", configuring),
        Hook(_PLANNING, "_pool_bytes_per_block", counting_attention_blocks),
        Hook(_PLANNING, "_max_memory_usage_bytes_from_groups", counting_memory),
    )


def grouping(original: Function) -> Function:
    """``get_kv_cache_groups``: neither inflated nor packed, otherwise grouped as stock does."""

    @functools.wraps(original)
    def get_kv_cache_groups(
        vllm_config: Any, kv_cache_spec: dict[str, KVCacheSpec]
    ) -> list[KVCacheGroupSpec]:
        from vllm.v1.core.kv_cache_utils import _get_kv_cache_groups_uniform_page_size

        groups = replacements.groups_or_none(
            vllm_config, kv_cache_spec, _get_kv_cache_groups_uniform_page_size
        )
        return original(vllm_config, kv_cache_spec) if groups is None else groups

    return get_kv_cache_groups


def configuring(original: Function) -> Function:
    """``get_kv_cache_config_from_groups``, for the real pool and for profiling."""

    @functools.wraps(original)
    def get_kv_cache_config_from_groups(
        vllm_config: Any, kv_cache_groups: list[KVCacheGroupSpec], available_memory: int
    ) -> KVCacheConfig:
        memory_bytes = _memory_bytes(vllm_config, kv_cache_groups, available_memory)
        config = replacements.config_or_none(vllm_config, kv_cache_groups, memory_bytes)
        if config is None:
            return original(vllm_config, kv_cache_groups, available_memory)
        return config

    return get_kv_cache_config_from_groups


def counting_attention_blocks(original: Function) -> Function:
    """``_pool_bytes_per_block``: a pool is counted in attention blocks."""

    @functools.wraps(original)
    def _pool_bytes_per_block(vllm_config: Any, kv_cache_groups: list[KVCacheGroupSpec]) -> int:
        groups = replacements.pool_groups_or_none(vllm_config, kv_cache_groups)
        if groups is None:
            return int(original(vllm_config, kv_cache_groups))
        return capacity.bytes_per_attention_block(groups)

    return _pool_bytes_per_block


def counting_memory(original: Function) -> Function:
    """``_max_memory_usage_bytes_from_groups``: one request of the longest length."""

    @functools.wraps(original)
    def _max_memory_usage_bytes_from_groups(
        vllm_config: Any, kv_cache_groups: list[KVCacheGroupSpec]
    ) -> int:
        needed_bytes = replacements.request_memory_or_none(vllm_config, kv_cache_groups)
        if needed_bytes is None:
            return int(original(vllm_config, kv_cache_groups))
        return needed_bytes

    return _max_memory_usage_bytes_from_groups


def _memory_bytes(vllm_config: Any, groups: list[KVCacheGroupSpec], available_bytes: int) -> int:
    """``num_gpu_blocks_override`` replaces what there is; profiling sets it and says 0."""
    override = vllm_config.cache_config.num_gpu_blocks_override
    in_scope = replacements.pool_groups_or_none(vllm_config, groups)
    if override is None or in_scope is None:
        return available_bytes
    return override * capacity.bytes_per_attention_block(in_scope)
