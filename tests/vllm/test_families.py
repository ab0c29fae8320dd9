"""Models the CPU build cannot run: from their layers' cache specs to the tensors a worker builds.

The sizes are those of the published configurations. Tensors are made on torch's meta device: all
of their geometry, none of their bytes.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from vllm.v1.kv_cache_interface import KVCacheSpec, KVQuantMode, MambaSpec, SlidingWindowSpec

from kvquarry_client.kernel_blocks import MultipleOf, Supported, select_kernel_blocks
from kvquarry_client.views import views_digest
from kvquarry_core.worker_layout import Arrangement, check_worker
from kvquarry_vllm.config import MixedKVCacheConfig
from kvquarry_vllm.scope import reason_for_stock
from kvquarry_vllm.worker import memory_of
from tests.vllm.configurations import (
    LAYOUTS,
    attention,
    latent,
    pool_config,
    runner_with,
    state,
    vllm_config,
)
from tests.vllm.test_geometry import built_by_vllm, built_from_plan

META = torch.device("meta")
MEMORY_BYTES = 16 << 30
FP8 = {"dtype": torch.float8_e4m3fn, "kv_quant_mode": KVQuantMode.FP8_PER_TENSOR}
#: The packed format of sparse latent attention: 656 bytes a token whatever the head.
FP8_DS_MLA = {
    "dtype": torch.uint8,
    "kv_quant_mode": KVQuantMode.FP8_PER_TENSOR,
    "cache_dtype_str": "fp8_ds_mla",
    "state_content_bytes": 656,
}


@dataclass(frozen=True)
class Family:
    """A model's layers, and what stock vLLM would do to its blocks.

    Attributes:
        block_tokens: The user's ``--block-size``.
        layers: Cache specs by kind of layer, with how many layers there are of it.
        backends: Kernel blocks that the model's attention backends take.
        stock_block_tokens: What stock vLLM would raise the block to.
    """

    block_tokens: int
    layers: tuple[tuple[KVCacheSpec, int], ...]
    backends: tuple[Supported, ...]
    stock_block_tokens: int

    def specs(self) -> dict[str, KVCacheSpec]:
        return {
            f"{kind}.{index}": spec
            for kind, (spec, num_layers) in enumerate(self.layers)
            for index in range(num_layers)
        }


def kda(block_tokens: int, num_heads: int) -> MambaSpec:
    """Kimi's delta attention with heads of 128."""
    return state(
        block_size=block_tokens,
        shapes=((3, 3 * num_heads * 128), (num_heads, 128, 128)),
        dtypes=(torch.bfloat16, torch.float32),
    )


def kimi_linear(block_tokens: int, backends: tuple[Supported, ...], **cache: Any) -> Family:
    spec = latent(block_size=block_tokens, **cache)
    layers = ((spec, 7), (kda(block_tokens, 32), 20))
    return Family(block_tokens, layers, backends, stock_block_tokens=1888)


def glm(block_tokens: int, **cache: Any) -> Family:
    """Latent heads of 512, with the indexer that finds their sparse keys."""
    indexer = latent(block_size=block_tokens, head_size=132, dtype=torch.uint8)
    spec = latent(block_size=block_tokens, head_size=512, **cache)
    layers = ((spec, 11), (indexer, 11), (kda(block_tokens, 64), 34))
    return Family(block_tokens, layers, ([64],), stock_block_tokens=4240)


def qwen(block_tokens: int, **cache: Any) -> Family:
    """Qwen3.6-35B-A3B."""
    gdn = state(
        block_size=block_tokens,
        shapes=((3, 8192), (32, 128, 128)),
        dtypes=(torch.bfloat16, torch.float32),
    )
    spec = attention(block_size=block_tokens, num_kv_heads=2, head_size=256, **cache)
    return Family(block_tokens, ((spec, 10), (gdn, 30)), ([MultipleOf(16)],), 1056)


def gemma(block_tokens: int) -> Family:
    """Gemma-4-26B-A4B: windows whose pages are twice as large as those of full attention."""
    full = attention(block_size=block_tokens, num_kv_heads=2, head_size=512)
    windows = SlidingWindowSpec(
        block_size=block_tokens,
        num_kv_heads=8,
        head_size=256,
        dtype=torch.bfloat16,
        sliding_window=1024,
    )
    return Family(block_tokens, ((full, 5), (windows, 25)), ([MultipleOf(16)],), 2 * block_tokens)


FAMILIES = {
    "Kimi-Linear": kimi_linear(64, ([64],)),
    "Kimi-Linear, split for two backends": kimi_linear(128, ([32, 64], [MultipleOf(16)])),
    "Kimi-Linear, fp8": kimi_linear(64, ([MultipleOf(64)],), **FP8),
    "GLM-5.3": glm(64),
    "GLM-5.3, packed fp8": glm(64, **FP8_DS_MLA),
    "Qwen3.6, fp8": qwen(16, **FP8),
    "Qwen3.6, fp8 at another block size": qwen(48, **FP8),
    "Gemma-4": gemma(16),
}
PARAMETERS = pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES)


def config_of(family: Family, layout: LAYOUTS = LAYOUTS.LBHNC) -> MixedKVCacheConfig:
    return pool_config(
        family.specs(), MEMORY_BYTES, cache_config__get_resolved_kv_cache_layout=lambda: layout
    )


def kernel_block_tokens(family: Family) -> int:
    return select_kernel_blocks(family.block_tokens, family.backends).kernel_block_tokens


@PARAMETERS
def test_the_family_gets_a_mixed_pool_at_the_users_block_size(family: Family) -> None:
    assert reason_for_stock(vllm_config(), family.specs()) is None
    config = config_of(family)
    sizes = {group.kv_cache_spec.block_size for group in config.kv_cache_groups}
    assert sizes == {family.block_tokens}
    assert family.block_tokens < family.stock_block_tokens
    assert config.needs_kv_cache_zeroing


@PARAMETERS
def test_vllm_builds_the_planned_tensors_for_its_kernels_to_split(family: Family) -> None:
    config = config_of(family)
    whole = built_by_vllm(config, family.block_tokens, device=META)
    assert views_digest(whole) == views_digest(built_from_plan(config, device=META))
    split = built_by_vllm(config, kernel_block_tokens(family), device=META)
    ratio = family.block_tokens // kernel_block_tokens(family)
    assert split["0.0"][0].shape[0] == whole["0.0"][0].shape[0] * ratio
    assert split["0.0"][0].stride(0) * ratio == whole["0.0"][0].stride(0)


@PARAMETERS
def test_with_blocks_outermost_vllm_builds_the_planned_tensors(family: Family) -> None:
    config = config_of(family, LAYOUTS.BLHNC)
    built = built_by_vllm(config, family.block_tokens, LAYOUTS.BLHNC, META)
    planned = built_from_plan(config, Arrangement.BLOCK_OUTERMOST, META)
    assert views_digest(built) == views_digest(planned)


@PARAMETERS
def test_a_worker_that_built_them_is_accepted(family: Family) -> None:
    """Latent attention binds its tensors without the dimension of heads."""
    config = config_of(family)
    bound = {
        name: tensors[0].squeeze(1) if len(tensors) == 1 else tensors
        for name, tensors in built_by_vllm(config, kernel_block_tokens(family), device=META).items()
    }
    vllm = vllm_config()
    vllm.compilation_config.static_forward_context = {
        name: SimpleNamespace(kv_cache=cache) for name, cache in bound.items()
    }
    worker = SimpleNamespace(
        vllm_config=vllm,
        model_runner=runner_with(config, family.backends),
        parallel_config=vllm.parallel_config,
        rank=0,
        device=META,
    )
    memory = memory_of(worker, config)
    check_worker(config.plan, memory.views, memory.buffer_bytes)
    assert {view.layer for view in memory.views} == family.specs().keys()


@PARAMETERS
def test_attention_is_never_padded_and_states_hardly(family: Family) -> None:
    plan = config_of(family).plan
    for spec, size_class in zip(plan.groups, plan.class_of_group, strict=True):
        geometry = plan.classes[size_class]
        padding = geometry.stride_bytes - spec.page_bytes
        assert padding == 0 or (spec.may_be_padded and padding < 0.12 * geometry.stride_bytes)


def test_an_indexer_has_a_size_of_its_own_and_is_zeroed_by_its_own_ids() -> None:
    plan = config_of(FAMILIES["GLM-5.3"]).plan
    attention_pages = {s.page_bytes for s in plan.groups if not s.may_be_padded}
    assert attention_pages == {64 * 1024, 64 * 132}
    assert len(plan.classes) == 3
