"""The builder for vLLM 0.33 plans the pool that 0.32's functions plan.

0.33 itself cannot be installed here; a module stands in for its default builder, and what that
module looks like is held by the recorded list of 0.33.
"""

import importlib
import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from vllm.v1.core import kv_cache_utils
from vllm.v1.kv_cache_interface import KVCacheSpec

from kvquarry_vllm.config import MixedKVCacheConfig
from kvquarry_vllm.gates import v0_33
from tests.vllm.configurations import (
    PAGE_BYTES,
    attention,
    attention_layers,
    groups_of,
    hybrid_layers,
    pool_config,
    vllm_config,
)

PLANNING = "vllm.v1.core.kv_cache_planning"


class DefaultKVCacheConfigBuilder:
    """Stands in for vLLM's; says only that it was asked."""

    def get_kv_cache_groups(self, vllm_config: Any, kv_cache_spec: Any) -> str:
        return "stock groups"

    def get_kv_cache_config_from_groups(
        self, vllm_config: Any, groups: Any, num_blocks: int
    ) -> str:
        return f"stock config of {num_blocks} blocks"

    def _get_pool_bytes_per_block(self, vllm_config: Any, kv_cache_groups: Any) -> None:
        return None


@pytest.fixture
def builder(monkeypatch: pytest.MonkeyPatch) -> Any:
    planning = ModuleType(PLANNING)
    grouping = kv_cache_utils._get_kv_cache_groups_uniform_page_size
    planning.DefaultKVCacheConfigBuilder = DefaultKVCacheConfigBuilder  # type: ignore[attr-defined]
    planning._get_kv_cache_groups_uniform_page_size = grouping  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, PLANNING, planning)
    module, _, name = v0_33.BUILDER.rpartition(".")
    monkeypatch.delitem(sys.modules, module, raising=False)
    return getattr(importlib.import_module(module), name)()


@pytest.mark.parametrize("layers", [hybrid_layers(), attention_layers()], ids=["hybrid", "plain"])
def test_the_builder_plans_what_the_functions_of_0_32_plan(
    builder: Any, layers: dict[str, KVCacheSpec]
) -> None:
    config = vllm_config()
    groups = builder.get_kv_cache_groups(config, layers)
    assert groups == groups_of(layers)
    block_bytes = builder._get_pool_bytes_per_block(config, groups)
    assert block_bytes == PAGE_BYTES * max(len(group.layer_names) for group in groups)
    num_blocks = (12 << 20) // block_bytes
    built = builder.get_kv_cache_config_from_groups(config, groups, num_blocks)
    assert isinstance(built, MixedKVCacheConfig)
    assert built == pool_config(layers, num_blocks * block_bytes)


def test_a_model_out_of_scope_goes_to_the_default_builder(builder: Any) -> None:
    config = vllm_config()
    layers: dict[str, KVCacheSpec] = {"a": attention(sliding_window=64)}
    assert builder.get_kv_cache_groups(config, layers) == "stock groups"
    groups = [SimpleNamespace(layer_names=["a"], kv_cache_spec=layers["a"])]
    assert builder._get_pool_bytes_per_block(config, groups) is None
    built = builder.get_kv_cache_config_from_groups(config, groups, 7)
    assert built == "stock config of 7 blocks"


def test_the_platform_names_our_builder_instead_of_vllms_default() -> None:
    name = v0_33.naming_builder(lambda *_: f"{PLANNING}.DefaultKVCacheConfigBuilder")
    assert name(None, None) == v0_33.BUILDER


def test_a_platform_with_a_builder_of_its_own_is_refused() -> None:
    name = v0_33.naming_builder(lambda *_: "vendor.Builder")
    with pytest.raises(v0_33.ForeignBuilder, match=r"vendor\.Builder"):
        name(None, None)


def test_memory_for_a_request_is_told_from_the_plan_and_asked_of_stock_otherwise() -> None:
    asked = []
    needed = v0_33.counting_memory(lambda *arguments: asked.append(arguments) or 5)
    assert needed("builder", vllm_config(), groups_of(hybrid_layers())) > 16 * PAGE_BYTES * 2
    assert asked == []
    odd = [SimpleNamespace(layer_names=["a"], kv_cache_spec=attention(sliding_window=64))]
    assert needed("builder", vllm_config(), odd) == 5
