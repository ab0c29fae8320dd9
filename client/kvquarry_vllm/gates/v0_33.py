"""vLLM 0.33: planning is a builder that the platform names; two sums are still functions.

Held against the Python files of the 0.33.0 wheel by ``make hooks-check``; not run, as there is no
CPU build of 0.33 yet.
"""

import functools
from typing import Any

from vllm.v1.kv_cache_interface import KVCacheGroupSpec

from kvquarry_vllm.gates import replacements
from kvquarry_vllm.gates.hooks import Hook
from kvquarry_vllm.gates.replacements import Function
from kvquarry_vllm.settings import Settings

BUILDER = "kvquarry_vllm.gates.builder_0_33.MixedKVCacheConfigBuilder"
_DEFAULT_BUILDER = "vllm.v1.core.kv_cache_planning.DefaultKVCacheConfigBuilder"


class ForeignBuilder(RuntimeError):
    """The platform has a builder of its own, which kvquarry's would replace."""


def hooks(settings: Settings) -> tuple[Hook, ...]:
    """All hooks of this version."""
    return (
        *replacements.shared_hooks(settings),
        Hook(
            "vllm.platforms.interface", "Platform.get_kv_cache_config_builder_cls", naming_builder
        ),
        Hook(
            "vllm.v1.core.kv_cache_planning",
            "_max_memory_usage_bytes_from_groups",
            counting_memory,
        ),
    )


def naming_builder(original: Function) -> Function:
    """``Platform.get_kv_cache_config_builder_cls``: ours instead of vLLM's default."""

    @functools.wraps(original)
    def get_kv_cache_config_builder_cls(cls: Any, vllm_config: Any) -> str:
        named = original(cls, vllm_config)
        if named != _DEFAULT_BUILDER:
            raise ForeignBuilder(
                f"this platform plans its KV cache with {named}; kvquarry was written for vLLM's "
                "own builder. Unset KVQUARRY_TARGET to run stock vLLM."
            )
        return BUILDER

    return get_kv_cache_config_builder_cls


def counting_memory(original: Function) -> Function:
    """``_max_memory_usage_bytes_from_groups``: one request of the longest length."""

    @functools.wraps(original)
    def _max_memory_usage_bytes_from_groups(
        builder: Any, vllm_config: Any, kv_cache_groups: list[KVCacheGroupSpec]
    ) -> int:
        needed_bytes = replacements.request_memory_or_none(vllm_config, kv_cache_groups)
        if needed_bytes is None:
            return int(original(builder, vllm_config, kv_cache_groups))
        return needed_bytes

    return _max_memory_usage_bytes_from_groups
