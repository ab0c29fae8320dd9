"""vLLM builds from our configuration the tensors that the views module builds from the plan."""

import copy
import pickle
from collections.abc import Sequence

import pytest
import torch
from vllm.model_executor.layers.mamba.abstract import MambaBase
from vllm.v1.kv_cache_interface import (
    AttentionSpec,
    FullAttentionSpec,
    KVCacheSpec,
    KVQuantMode,
    MambaSpec,
)
from vllm.v1.worker.utils import allocate_kv_cache

from kvquarry_client.views import LayerTensors, Page, Part, build_views, views_digest
from kvquarry_core.plan import make_plan
from kvquarry_core.worker_layout import Arrangement
from kvquarry_vllm.config import MixedKVCacheConfig
from kvquarry_vllm.refusals import SettingRefused
from tests.vllm.configurations import (
    LAYOUTS,
    attention,
    attention_layers,
    groups_of,
    hybrid_layers,
    latent,
    pool_config,
    state,
)

CPU = torch.device("cpu")
Layers = dict[str, KVCacheSpec]
Bound = dict[str, LayerTensors]

MODELS: dict[str, Layers] = {
    "hybrid": hybrid_layers(),
    "attention only": attention_layers(),
    "state smaller than a page": {"a": attention(), "b": state(shapes=((3, 512), (16, 64)))},
    "states of two kinds": {
        "a": attention(),
        "b": state(),
        "c": state(shapes=((3, 256), (9, 64, 32))),
    },
    "latent attention": {"a": latent(), "b": state()},
    "latent attention, its indexer and states": {
        **{f"a.{index}": latent() for index in range(2)},
        **{f"i.{index}": latent(head_size=132, dtype=torch.uint8) for index in range(2)},
        **{f"s.{index}": state() for index in range(3)},
    },
    "fp8 beside states": {
        "a": attention(dtype=torch.float8_e4m3fn, kv_quant_mode=KVQuantMode.FP8_PER_TENSOR),
        "b": state(),
    },
    "two sizes of attention beside states": {
        "a": attention(),
        "b": attention(head_size=192),
        "c": state(),
    },
    "groups of unequal length": {
        **{f"a.{index}": attention() for index in range(3)},
        **{f"s.{index}": state() for index in range(5)},
    },
}


class _StateLayer:
    """As much of a Mamba layer as splits a page into states."""

    bind = MambaBase.bind_kv_cache

    def __init__(self, spec: MambaSpec) -> None:
        self._spec = spec
        self.kv_cache: LayerTensors = ()

    def get_state_shape(self) -> Sequence[tuple[int, ...]]:
        return self._spec.shapes

    def get_state_dtype(self) -> Sequence[torch.dtype]:
        return self._spec.dtypes


def built_by_vllm(
    config: MixedKVCacheConfig,
    kernel_block_tokens: int,
    layout: LAYOUTS = LAYOUTS.LBHNC,
    device: torch.device = CPU,
) -> Bound:
    """What vLLM's worker binds to the layers, states split into their tensors."""
    sizes = [
        spec.block_size if isinstance(spec, MambaSpec) else kernel_block_tokens
        for spec in (group.kv_cache_spec for group in config.kv_cache_groups)
    ]
    tensors = allocate_kv_cache(config, device, layout, sizes)
    bound: Bound = {}
    for name, tensor in tensors.items():
        spec = config.kv_cache_groups[config.group_of_layer(name)].kv_cache_spec
        if isinstance(spec, MambaSpec):
            layer = _StateLayer(spec)
            layer.bind(tensor)
            bound[name] = layer.kv_cache
        else:
            bound[name] = (tensor,)
    return bound


def built_from_plan(
    config: MixedKVCacheConfig,
    arrangement: Arrangement = Arrangement.LAYER_OUTERMOST,
    device: torch.device = CPU,
) -> Bound:
    """The same layers, from the plan in torch alone."""
    buffer = torch.zeros(config.plan.pool_bytes, dtype=torch.int8, device=device)
    pages = [_page(group.kv_cache_spec) for group in config.kv_cache_groups]
    views = build_views(config.plan, buffer, pages, arrangement)
    return {
        name: tensors
        for group, layers in zip(config.kv_cache_groups, views, strict=True)
        for name, tensors in zip(group.layer_names, layers, strict=True)
    }


def _page(spec: KVCacheSpec) -> Page:
    if isinstance(spec, MambaSpec):
        return tuple(Part(*part) for part in zip(spec.shapes, spec.dtypes, strict=True))
    assert isinstance(spec, AttentionSpec)
    content = spec.state_content_size_bytes // spec.dtype.itemsize
    return (Part((spec.num_heads, spec.num_states, content), spec.dtype),)


@pytest.mark.parametrize("layers", MODELS.values(), ids=MODELS)
def test_vllm_builds_the_tensors_of_the_plan(layers: Layers) -> None:
    config = pool_config(layers)
    by_vllm, by_us = built_by_vllm(config, 64), built_from_plan(config)
    assert by_vllm.keys() == by_us.keys() == layers.keys()
    assert views_digest(by_vllm) == views_digest(by_us)


def test_a_stride_that_is_one_block_off_shows_in_the_digest() -> None:
    config = pool_config(hybrid_layers())
    expected = views_digest(built_from_plan(config))
    for tensor in config.kv_cache_tensors:
        tensor.block_stride -= 64
        assert views_digest(built_by_vllm(config, 64)) != expected
        tensor.block_stride += 64
    assert views_digest(built_by_vllm(config, 64)) == expected


@pytest.mark.parametrize("layers", MODELS.values(), ids=MODELS)
def test_blocks_of_different_sizes_show_the_same_bytes(layers: Layers) -> None:
    """Every byte a block of one class shows belongs to the blocks at `i * stride` in the others."""
    config = pool_config(layers)
    plan = config.plan
    for group, by_layer in enumerate(_bytes_by_layer(config)):
        geometry = plan.classes[plan.class_of_group[group]]
        for region, pages in enumerate(by_layer):
            start = region * plan.region_bytes
            expected = start + torch.arange(geometry.num_blocks) * geometry.stride_bytes
            assert torch.equal(pages[:, 0], expected)
            assert torch.equal(pages[:, -1], expected + geometry.page_bytes - 1)


def _bytes_by_layer(config: MixedKVCacheConfig) -> list[list[torch.Tensor]]:
    """For every layer, the buffer's byte numbers as its blocks show them: `[num_blocks, page]`."""
    numbers = torch.arange(config.plan.pool_bytes)
    tensors = allocate_kv_cache(config, CPU, LAYOUTS.LBHNC)
    by_layer = []
    for group in config.kv_cache_groups:
        views = []
        for name in group.layer_names:
            blocks = tensors[name]
            size = blocks.element_size()
            page = config.plan.groups[len(by_layer)].page_bytes
            shape = (blocks.shape[0], page)
            strides = (blocks.stride(0) * size, 1)
            views.append(numbers.as_strided(shape, strides, blocks.storage_offset() * size))
        by_layer.append(views)
    return by_layer


def test_num_blocks_are_attention_blocks_and_each_tensor_has_its_own() -> None:
    config = pool_config(hybrid_layers())
    counts = {
        type(config.kv_cache_groups[config.group_of_layer(tensor.layers[0])].kv_cache_spec): (
            config.num_blocks_of(tensor)
        )
        for tensor in config.kv_cache_tensors
    }
    assert counts[FullAttentionSpec] == config.num_blocks
    assert counts[MambaSpec] == config.num_blocks_of_smallest_class < config.num_blocks


def test_attention_blocks_are_counted_also_where_a_state_is_smaller() -> None:
    config = pool_config(MODELS["state smaller than a page"])
    assert config.plan.groups[0].page_bytes > config.plan.groups[1].page_bytes
    assert config.num_blocks == config.plan.classes[1].num_blocks


def test_kernel_blocks_split_attention_and_leave_states_alone() -> None:
    config = pool_config(hybrid_layers())
    split = built_by_vllm(config, 32)
    whole = built_by_vllm(config, 64)
    assert split["layers.3"][0].shape[0] == 2 * whole["layers.3"][0].shape[0]
    assert split["layers.3"][0].stride(0) * 2 == whole["layers.3"][0].stride(0)
    assert [t.shape for t in split["layers.0"]] == [t.shape for t in whole["layers.0"]]


def with_layout(layers: Layers, layout: LAYOUTS) -> MixedKVCacheConfig:
    return pool_config(layers, cache_config__get_resolved_kv_cache_layout=lambda: layout)


@pytest.mark.parametrize("layout", [LAYOUTS.LHBNC, LAYOUTS.BHLNC])
def test_a_layout_with_heads_outside_the_blocks_is_refused(layout: LAYOUTS) -> None:
    with pytest.raises(SettingRefused, match=f"{layout.name}.*VLLM_KV_CACHE_LAYOUT to LBHNC"):
        with_layout(hybrid_layers(), layout)


@pytest.mark.parametrize("layers", MODELS.values(), ids=MODELS)
def test_with_blocks_outermost_vllm_builds_the_tensors_of_the_plan(layers: Layers) -> None:
    config = with_layout(layers, LAYOUTS.BLHNC)
    by_vllm = built_by_vllm(config, 64, LAYOUTS.BLHNC)
    assert views_digest(by_vllm) == views_digest(
        built_from_plan(config, Arrangement.BLOCK_OUTERMOST)
    )


def test_token_major_blocks_lie_where_head_major_ones_do() -> None:
    config = with_layout(hybrid_layers(), LAYOUTS.LBNHC)
    assert config.kv_cache_tensors == pool_config(hybrid_layers()).kv_cache_tensors


def test_the_configuration_survives_the_way_to_a_worker() -> None:
    config = pool_config(hybrid_layers())
    config.pool_id, config.incarnation = "pool-1", 2
    for copied in (pickle.loads(pickle.dumps(config)), copy.deepcopy(config)):
        assert isinstance(copied, MixedKVCacheConfig)
        assert copied == config
        assert copied.num_blocks_of(copied.kv_cache_tensors[0]) == config.num_blocks_of(
            config.kv_cache_tensors[0]
        )


def test_the_plan_can_be_made_again_from_what_the_configuration_says() -> None:
    config = pool_config(hybrid_layers(), memory_bytes=(12 << 20) + 12_345)
    assert make_plan(config.plan.groups, config.memory_bytes) == config.plan


def test_a_profiling_pool_grows_to_the_least_that_can_be_planned() -> None:
    config = pool_config(hybrid_layers(), memory_bytes=0)
    assert min(size_class.num_usable_blocks for size_class in config.plan.classes) >= 1
    assert make_plan(config.plan.groups, config.memory_bytes) == config.plan


def test_checkpoints_within_a_chunk_are_left_out_of_the_groups() -> None:
    layers = {"a": attention(), "s": state(num_prefill_checkpoint_blocks=1)}
    specs = [group.kv_cache_spec for group in groups_of(layers)]
    assert [s.num_prefill_checkpoint_blocks for s in specs if isinstance(s, MambaSpec)] == [0]


def test_groups_keep_the_block_size_and_the_page_size_of_every_layer() -> None:
    layers = hybrid_layers()
    groups = groups_of(layers)
    assert sorted(name for group in groups for name in group.layer_names) == sorted(layers)
    for group in groups:
        assert all(layers[name] == group.kv_cache_spec for name in group.layer_names)
    assert [len(group.layer_names) for group in groups] == [2, 2, 2, 2]
