"""The KV cache builder of vLLM 0.33 and later, over the planning functions 0.32 uses too.

vLLM makes a builder anew for every call and asks it for ``num_blocks`` blocks of the size that
``_get_pool_bytes_per_block`` names: attention blocks.
"""

from typing import Any

from vllm.v1.core.kv_cache_planning import (
    DefaultKVCacheConfigBuilder,
    _get_kv_cache_groups_uniform_page_size,
)
from vllm.v1.kv_cache_interface import KVCacheConfig, KVCacheGroupSpec, KVCacheSpec

from kvquarry_vllm import capacity
from kvquarry_vllm.gates import replacements


class MixedKVCacheConfigBuilder(DefaultKVCacheConfigBuilder):
    """Plans a mixed-size pool for models in scope; leaves all others to vLLM's default."""

    def get_kv_cache_groups(
        self, vllm_config: Any, kv_cache_spec: dict[str, KVCacheSpec]
    ) -> list[KVCacheGroupSpec]:
        """See ``KVCacheConfigBuilder.get_kv_cache_groups``."""
        groups = replacements.groups_or_none(
            vllm_config, kv_cache_spec, _get_kv_cache_groups_uniform_page_size
        )
        if groups is None:
            return super().get_kv_cache_groups(vllm_config, kv_cache_spec)
        return groups

    def get_kv_cache_config_from_groups(
        self, vllm_config: Any, kv_cache_groups: list[KVCacheGroupSpec], num_blocks: int
    ) -> KVCacheConfig:
        """See ``KVCacheConfigBuilder.get_kv_cache_config_from_groups``."""
        block_bytes = self._get_pool_bytes_per_block(vllm_config, kv_cache_groups) or 0
        config = replacements.config_or_none(vllm_config, kv_cache_groups, num_blocks * block_bytes)
        if config is None:
            return super().get_kv_cache_config_from_groups(vllm_config, kv_cache_groups, num_blocks)
        return config

    def _get_pool_bytes_per_block(
        self, vllm_config: Any, kv_cache_groups: list[KVCacheGroupSpec]
    ) -> int | None:
        """See ``KVCacheConfigBuilder._get_pool_bytes_per_block``."""
        groups = replacements.pool_groups_or_none(vllm_config, kv_cache_groups)
        if groups is None:
            return super()._get_pool_bytes_per_block(vllm_config, kv_cache_groups)
        return capacity.bytes_per_attention_block(groups)
