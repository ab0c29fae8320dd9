"""Which models get a mixed-size pool, and why the others do not."""

from typing import Any

import pytest
import torch
from vllm.v1.kv_cache_interface import (
    ChunkedLocalAttentionSpec,
    CrossAttentionSpec,
    HiddenStateCacheSpec,
    KVCacheSpec,
    KVQuantMode,
    MLAAttentionSpec,
    SlidingWindowMLASpec,
    SlidingWindowSpec,
    UniformTypeKVCacheSpecs,
)

from kvquarry_vllm.scope import reason_for_stock
from tests.vllm.configurations import (
    PAGE_BYTES,
    attention,
    attention_layers,
    hybrid_layers,
    state,
    vllm_config,
)

PLAIN = {"block_size": 64, "num_kv_heads": 2, "head_size": 64, "dtype": torch.bfloat16}


def sliding(**changes: Any) -> SlidingWindowSpec:
    return SlidingWindowSpec(**(PLAIN | {"sliding_window": 128} | changes))


LATENT = {"block_size": 64, "num_kv_heads": 1, "head_size": 576, "dtype": torch.bfloat16}


def chunked() -> ChunkedLocalAttentionSpec:
    return ChunkedLocalAttentionSpec(**PLAIN, attention_chunk_size=128)


@pytest.mark.parametrize("layers", [hybrid_layers(), attention_layers()])
def test_plain_attention_with_or_without_states_is_in_scope(
    layers: dict[str, KVCacheSpec],
) -> None:
    assert reason_for_stock(vllm_config(), layers) is None


@pytest.mark.parametrize(
    "layers",
    [
        {"a": MLAAttentionSpec(**LATENT), "s": state()},
        {"a": MLAAttentionSpec(**LATENT)},
        {"a": attention(), "wide": attention(head_size=128), "s": state()},
        {"a": attention(dtype=torch.float8_e4m3fn, kv_quant_mode=KVQuantMode.FP8_PER_TENSOR)},
    ],
    ids=["latent hybrid", "latent", "two sizes of attention in a hybrid", "fp8"],
)
def test_latent_and_fp8_attention_and_several_sizes_in_a_hybrid_are_in_scope(
    layers: dict[str, KVCacheSpec],
) -> None:
    assert reason_for_stock(vllm_config(), layers) is None


@pytest.mark.parametrize(
    "layers",
    [
        {"a": attention(), "w": sliding()},
        {"w": sliding()},
        {"a": attention(), "w": sliding(head_size=128)},
        {"a": attention(), "c": chunked()},
        {"a": attention(), "x": CrossAttentionSpec(**PLAIN)},
        {"a": attention(), "w": sliding(), "s": state()},
    ],
    ids=["windows", "windows alone", "two sizes", "chunks", "encoder", "windows and states"],
)
def test_windows_chunks_and_encoders_are_in_scope(layers: dict[str, KVCacheSpec]) -> None:
    assert reason_for_stock(vllm_config(), layers) is None


def test_windows_that_are_told_to_keep_all_blocks_are_left_to_stock() -> None:
    config = vllm_config(scheduler_config__disable_hybrid_kv_cache_manager=True)
    mixed: dict[str, KVCacheSpec] = {"a": attention(), "w": sliding()}
    assert "keep all blocks" in str(reason_for_stock(config, mixed))
    assert reason_for_stock(config, {"a": attention()}) is None


def test_several_kinds_of_states_are_in_scope() -> None:
    layers = {"a": attention(), "b": state(), "c": state(shapes=((8,), (16,)))}
    assert reason_for_stock(vllm_config(), layers) is None


@pytest.mark.parametrize(
    ("odd", "reason"),
    [
        (sliding(extra_retained_tokens=4), "retain more"),
        (SlidingWindowMLASpec(**LATENT, sliding_window=128), "SlidingWindowMLASpec"),
        (HiddenStateCacheSpec(**LATENT), "HiddenStateCacheSpec"),
        (MLAAttentionSpec(**LATENT, alignment=50_000), "padded attention pages"),
        (MLAAttentionSpec(**LATENT, kv_quant_mode=KVQuantMode.NVFP4_DS_MLA), "NVFP4_DS_MLA"),
        (UniformTypeKVCacheSpecs(64, {"x": attention()}), "UniformType"),
        (attention(sliding_window=128), "keep all blocks"),
        (attention(attention_chunk_size=128), "keep all blocks"),
        (attention(kv_quant_mode=KVQuantMode.NVFP4), "NVFP4"),
        (attention(kv_quant_mode=KVQuantMode.TURBOQUANT_4BIT_NC), "TURBOQUANT"),
        (attention(kv_quant_mode=KVQuantMode.INT8_PER_TOKEN_HEAD), "INT8_PER_TOKEN_HEAD"),
        (attention(tokens_per_state=4), "compressed"),
        (attention(non_causal=True), "non-causal"),
        (attention(page_size_padded=2 * PAGE_BYTES), "padded attention pages"),
        (attention(block_stride_alignment=3 * PAGE_BYTES), "padded attention pages"),
        (attention(num_kv_heads=4, dtype=torch.float8_e4m3fn), "several precisions"),
        (state(mamba_cache_mode="none"), "mode 'none'"),
        (state(page_size_padded=1 << 20), "padded states"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_one_odd_layer_leaves_a_hybrid_to_stock(odd: KVCacheSpec, reason: str) -> None:
    found = reason_for_stock(vllm_config(), hybrid_layers() | {"odd": odd})
    assert found is not None
    assert reason in found


def test_states_alone_have_one_page_size_already() -> None:
    assert "without attention" in str(reason_for_stock(vllm_config(), {"a": state()}))


def test_attention_of_two_formats_without_states_is_left_to_stock() -> None:
    layers = attention_layers() | {"odd": attention(num_kv_heads=4, head_size=32)}
    assert "one block table" in str(reason_for_stock(vllm_config(), layers))


def test_a_model_without_a_cache_is_left_to_stock() -> None:
    assert reason_for_stock(vllm_config(), {}) is not None


def test_a_model_that_groups_its_own_layers_keeps_doing_so() -> None:
    config = vllm_config(model_config__supports_kv_cache_grouping=True)
    assert "groups its own" in str(reason_for_stock(config, hybrid_layers()))
