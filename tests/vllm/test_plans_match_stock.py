"""What the planner says of stock vLLM is what vLLM's own code computes, and so is a state's size.

Layers and backends are made up where only numbers matter; the sizes of states come from vLLM's
model classes, given the configurations that the planner ships.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers.models.auto.configuration_auto import CONFIG_MAPPING
from vllm.model_executor.models import ModelRegistry
from vllm.platforms.interface import Platform
from vllm.v1.attention.backend import MultipleOf
from vllm.v1.core import kv_cache_utils
from vllm.v1.kv_cache_interface import (
    ChunkedLocalAttentionSpec,
    FullAttentionSpec,
    KVCacheSpec,
    MambaSpec,
    MLAAttentionSpec,
    SlidingWindowSpec,
)

from kvquarry_core.plan import GroupKind, make_plan
from kvquarry_tools.models import Serving, find_model, known_models
from kvquarry_tools.models.layers import LayerCache
from kvquarry_tools.models.library import __file__ as library_file
from kvquarry_tools.models.stock import stock_block_tokens, stock_layout
from kvquarry_tools.planning import demand
from kvquarry_tools.planning.pools import MixedPool, longest_request
from kvquarry_vllm import capacity
from kvquarry_vllm.capacity import RequestSize
from kvquarry_vllm.grouping import group_specs, mixed_groups

CONFIGURATIONS = Path(library_file).parent / "configurations"
#: One for each of vLLM's classes that the CPU build can import.
MODELS = [
    "Qwen3-Next-80B-A3B",
    "Nemotron-3-Ultra-550B-A55B",
    "Nemotron-Nano-9B-v2",
    "Nemotron-H-56B-Base-8K",
    "Granite-4.0-H-Tiny",
    "Falcon-H1-7B",
    "Jamba",
    "Zamba2",
    "LFM2-2.6B",
]


def configuration(name: str) -> Any:
    """A shipped configuration as transformers makes it, with all it derives from the fields."""
    file = json.loads((CONFIGURATIONS / "names.json").read_text())[name]
    fields = json.loads((CONFIGURATIONS / file).read_text())
    return CONFIG_MAPPING[fields.pop("model_type")](**fields)


def page_bytes_of_vllm(architecture: str, config: Any, serving: Serving) -> int:
    """A state's page by vLLM's own class of the model."""
    state_dtype = serving.state_dtype
    if state_dtype == "auto" and architecture == "NemotronHForCausalLM":
        # `NemotronHForCausalLMConfig` does this before anybody asks.
        state_dtype = getattr(config, "mamba_ssm_cache_dtype", "float32")
    drafted = serving.num_speculative_tokens
    vllm_config = SimpleNamespace(
        parallel_config=SimpleNamespace(tensor_parallel_size=serving.tp),
        model_config=SimpleNamespace(hf_config=config, hf_text_config=config, dtype=torch.bfloat16),
        cache_config=SimpleNamespace(
            mamba_cache_dtype="auto", mamba_ssm_cache_dtype=state_dtype, use_replayssm=False
        ),
        num_speculative_tokens=drafted,
        speculative_config=SimpleNamespace(num_speculative_tokens=drafted) if drafted else None,
    )
    model: Any = ModelRegistry._try_load_model_cls(architecture)
    return MambaSpec(
        shapes=model.get_mamba_state_shape_from_config(vllm_config),
        dtypes=model.get_mamba_state_dtype_from_config(vllm_config),
        block_size=1,
    ).page_size_bytes


@pytest.mark.parametrize("name", MODELS)
def test_a_state_is_as_large_as_vllms_own_class_says(name: str) -> None:
    model, config = find_model(name), configuration(name)
    for tp in (1, 2):
        for state_dtype in ("auto", "bfloat16", "float32"):
            for drafted in (0, 5):
                serving = Serving(tp=tp, state_dtype=state_dtype, num_speculative_tokens=drafted)
                ours = {layer.state_bytes for layer in model.served(serving).layers} - {0}
                assert ours == {page_bytes_of_vllm(model.architecture, config, serving)}, serving


KINDS = [
    LayerCache(GroupKind.FULL_ATTENTION, bytes_per_token=1024),
    LayerCache(GroupKind.SLIDING_WINDOW, bytes_per_token=1024, window_tokens=512),
    LayerCache(GroupKind.SLIDING_WINDOW, bytes_per_token=2048, window_tokens=512),
    LayerCache(GroupKind.RECURRENT_STATE, state_bytes=20_000),
    LayerCache(GroupKind.RECURRENT_STATE, state_bytes=200_000),
]


def vllm_spec(layer: LayerCache, block_tokens: int) -> KVCacheSpec:
    """The same layer as vLLM describes it: one head of numbers of two bytes.

    Of a state only the widest number counts, by which it is aligned.
    """
    if layer.state_bytes:
        widest = {16: torch.uint8, 32: torch.bfloat16, 64: torch.float32}[layer.alignment_bytes]
        return MambaSpec(
            block_size=block_tokens,
            shapes=((layer.state_bytes // widest.itemsize,),),
            dtypes=(widest,),
            num_speculative_blocks=layer.num_speculative_blocks,
        )
    attention = {
        "block_size": block_tokens,
        "num_kv_heads": 1,
        "head_size": layer.bytes_per_token // 4,
        "dtype": torch.bfloat16,
    }
    if layer.kind is GroupKind.CHUNKED_LOCAL:
        return ChunkedLocalAttentionSpec(**attention, attention_chunk_size=layer.window_tokens)
    if layer.window_tokens:
        return SlidingWindowSpec(**attention, sliding_window=layer.window_tokens)
    return FullAttentionSpec(**attention)


@st.composite
def mixed_layers(draw: st.DrawFn) -> list[LayerCache]:
    """Few kinds, about equally often, so that groups of nearly equal length come up."""
    kinds = draw(st.lists(st.sampled_from(KINDS), min_size=1, max_size=3, unique=True))
    layers = [kind for kind in kinds for _ in range(draw(st.integers(8, 16)))]
    return draw(st.permutations(layers))


@given(mixed_layers() | st.lists(st.sampled_from(KINDS), min_size=1, max_size=60))
@settings(max_examples=200, deadline=None)
def test_pages_are_made_equal_and_layers_are_grouped_as_by_vllm(layers: list[LayerCache]) -> None:
    layout = stock_layout(layers, 16)
    specs = {
        f"layers.{index}": vllm_spec(layer, layout.block_tokens)
        for index, layer in enumerate(layers)
    }
    unified = kv_cache_utils.unify_kv_cache_spec_page_size(specs)
    groups = kv_cache_utils._get_kv_cache_groups_uniform_page_size(unified)
    assert [(group.num_layers, group.page_bytes) for group in layout.groups] == [
        (len(group.layer_names), group.kv_cache_spec.page_size_bytes) for group in groups
    ]
    for ours, theirs in zip(layout.groups, groups, strict=True):
        if ours.kind is not GroupKind.RECURRENT_STATE:
            assert ours.block_tokens == theirs.kv_cache_spec.block_size


class Backend:
    """An attention backend of a GPU: whole multiples of 16 tokens, pages as they are."""

    @staticmethod
    def get_supported_kernel_block_sizes() -> list[MultipleOf]:
        return [MultipleOf(16)]

    @staticmethod
    def customize_spec(spec: FullAttentionSpec) -> FullAttentionSpec:
        return spec


class OnePlatform(Platform):
    @classmethod
    def _find_non_ssm_backends(cls, vllm_config: Any) -> list[type[Backend]]:
        return [Backend]


def blown_up_by_vllm(
    monkeypatch: pytest.MonkeyPatch, attention: LayerCache, state: LayerCache, block_tokens: int
) -> int:
    """The block size that vLLM settles on."""
    model = SimpleNamespace(
        get_mamba_state_shape_from_config=lambda _: ((state.state_bytes,),),
        get_mamba_state_dtype_from_config=lambda _: (torch.uint8,),
    )
    monkeypatch.setattr(ModelRegistry, "resolve_model_cls", lambda *_, **__: (model, None))
    monkeypatch.setattr("vllm.config.vllm.set_current_vllm_config", lambda _: _Nothing())
    numbers = attention.bytes_per_token // (2 if attention.is_latent else 4)
    cache_config = SimpleNamespace(
        cache_dtype="auto",
        block_size=block_tokens,
        kv_cache_dtype_skip_layers=[],
        mamba_cache_mode="align",
        mamba_page_size_padded=None,
    )
    model_config = SimpleNamespace(
        dtype=torch.bfloat16,
        use_mla=attention.is_latent,
        architecture="MadeUp",
        get_num_kv_heads=lambda _: 1,
        get_head_size=lambda: numbers,
    )
    OnePlatform._align_hybrid_block_size(
        SimpleNamespace(cache_config=cache_config, model_config=model_config, parallel_config=None),
        Backend,
    )
    return int(cache_config.block_size)


class _Nothing:
    def __enter__(self) -> None: ...
    def __exit__(self, *_: object) -> None: ...


@pytest.mark.parametrize("is_latent", [False, True], ids=["heads", "latent"])
@given(
    token_bytes=st.integers(1, 2000).map(lambda quarter: 4 * quarter),
    state_bytes=st.integers(1, 10_000_000),
    block_tokens=st.sampled_from([16, 32, 48, 64, 128, 528, 4096]),
)
@settings(max_examples=100, deadline=None)
def test_blocks_are_blown_up_as_by_vllm(
    is_latent: bool, token_bytes: int, state_bytes: int, block_tokens: int
) -> None:
    attention = LayerCache(
        GroupKind.FULL_ATTENTION, bytes_per_token=token_bytes, is_latent=is_latent
    )
    state = LayerCache(GroupKind.RECURRENT_STATE, state_bytes=state_bytes)
    with pytest.MonkeyPatch.context() as patch:
        theirs = blown_up_by_vllm(patch, attention, state, block_tokens)
    assert stock_block_tokens([attention, state], block_tokens) == theirs


def test_a_latent_page_is_one_vector_a_token() -> None:
    spec = MLAAttentionSpec(block_size=16, num_kv_heads=1, head_size=576, dtype=torch.bfloat16)
    (group,) = find_model("DeepSeek-V3").groups(16)
    assert group.page_bytes == spec.page_size_bytes


@pytest.mark.parametrize("name", known_models())
def test_groups_are_those_that_the_plug_in_opens_a_pool_with(name: str) -> None:
    """With the same layers in the same order, as vLLM describes them."""
    served = find_model(name).served(Serving(64, num_speculative_tokens=2))
    specs = {f"layers.{index}": vllm_spec(layer, 64) for index, layer in enumerate(served.layers)}
    stock_grouping = kv_cache_utils._get_kv_cache_groups_uniform_page_size
    assert group_specs(mixed_groups(specs, stock_grouping)) == served.groups


@pytest.mark.parametrize(
    "name",
    ["Qwen3.6-35B-A3B", "Zamba2", "LFM2-2.6B", "Qwen3-8B", "Gemma-4-26B-A4B", "Llama-4-Scout"],
)
def test_the_longest_request_of_a_plan_is_the_longest_that_start_up_takes(name: str) -> None:
    plan = make_plan(find_model(name).groups(), 4 << 30)
    longest = longest_request(MixedPool(plan))
    assert longest
    size = RequestSize(longest, demand.IN_FLIGHT_TOKENS)
    assert capacity.fits_one_request(plan, size)
    assert not capacity.fits_one_request(plan, replace(size, num_tokens=longest + 1))
    asked = capacity.blocks_of_request(plan.groups, size)
    most = demand.at_most(plan.groups, longest)
    assert all(few <= many for few, many in zip(asked, most, strict=True))
