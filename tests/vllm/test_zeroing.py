"""vLLM's zeroing of new attention blocks hits exactly their bytes, whatever else is in the pool."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from vllm.v1.kv_cache_interface import KVCacheSpec
from vllm.v1.worker.cpu_model_runner import CPUModelRunner
from vllm.v1.worker.utils import AttentionGroup, KVBlockZeroer, allocate_kv_cache

from kvquarry_vllm.config import MixedKVCacheConfig
from tests.vllm.configurations import LAYOUTS, attention, hybrid_layers, pool_config, state

CPU = torch.device("cpu")
UNEQUAL: dict[str, KVCacheSpec] = {
    **{f"a.{index}": attention() for index in range(5)},
    **{f"s.{index}": state() for index in range(2)},
}
MODELS = pytest.mark.parametrize(
    "layers", [hybrid_layers(), UNEQUAL], ids=["one group", "three groups"]
)


def dirty_layers(config: MixedKVCacheConfig, kernel_block_tokens: int = 64) -> dict[str, Any]:
    """The layers as vLLM binds them, in a pool full of ones."""
    sizes = [kernel_block_tokens] * len(config.kv_cache_groups)
    for index, group in enumerate(config.kv_cache_groups):
        if group.kv_cache_spec == state():
            sizes[index] = 64
    views = allocate_kv_cache(config, CPU, LAYOUTS.LBHNC, sizes)
    _buffer(views).fill_(1)
    return {name: SimpleNamespace(kv_cache=view) for name, view in views.items()}


def _buffer(views: dict[str, torch.Tensor]) -> torch.Tensor:
    storage = next(iter(views.values())).untyped_storage()
    return torch.empty(0, dtype=torch.int8).set_(storage)  # type: ignore[call-overload]


def attention_bytes(config: MixedKVCacheConfig, block_ids: list[int]) -> torch.Tensor:
    """The bytes of these attention blocks in all layers: true where they are."""
    plan = config.plan
    groups = [
        g for g, spec in enumerate(plan.groups) if spec.page_bytes == attention().page_size_bytes
    ]
    stride = plan.classes[plan.class_of_group[groups[0]]].stride_bytes
    marked = torch.zeros(plan.pool_bytes, dtype=torch.bool)
    for layer in range(max(plan.groups[group].num_layers for group in groups)):
        for block in block_ids:
            start = layer * plan.region_bytes + block * stride
            marked[start : start + stride] = True
    return marked


@MODELS
def test_the_cpu_runner_zeroes_the_blocks_and_nothing_else(
    layers: dict[str, KVCacheSpec],
) -> None:
    config = pool_config(layers)
    context = dirty_layers(config)
    runner = SimpleNamespace(
        kv_cache_config=config,
        compilation_config=SimpleNamespace(static_forward_context=context),
    )
    block_ids = [3, 4, 11, config.num_blocks - 1]
    CPUModelRunner._zero_block_ids(runner, block_ids)
    buffer = _buffer({name: layer.kv_cache for name, layer in context.items()})
    assert torch.equal(buffer == 0, attention_bytes(config, block_ids))


@MODELS
@pytest.mark.parametrize("kernel_block_tokens", [64, 16])
def test_the_gpu_zeroer_addresses_the_blocks_and_nothing_else(
    layers: dict[str, KVCacheSpec], kernel_block_tokens: int
) -> None:
    """Its kernel needs a GPU; the table of segments that it works from is made here."""
    config = pool_config(layers)
    context = dirty_layers(config, kernel_block_tokens)
    zeroer = KVBlockZeroer(
        CPU,
        [
            AttentionGroup(None, group.layer_names, group.kv_cache_spec, index)  # type: ignore[arg-type]
            for index, group in enumerate(config.kv_cache_groups)
        ],
        [kernel_block_tokens] * len(config.kv_cache_groups),
        context,
        config.num_blocks,
    )
    assert zeroer._meta is not None
    addresses, strides, sizes, *_ = zeroer._meta
    buffer = _buffer({name: layer.kv_cache for name, layer in context.items()})
    block_ids = [3, 4, config.num_blocks - 1]
    for address, stride, size in zip(
        addresses.tolist(), strides.tolist(), sizes.tolist(), strict=True
    ):
        for block in block_ids:
            start = address - buffer.data_ptr() + block * stride * 4
            buffer[start : start + size * 4] = 0
    assert torch.equal(buffer == 0, attention_bytes(config, block_ids))


def test_a_hybrid_pool_asks_for_zeroing_and_a_plain_one_does_not() -> None:
    assert pool_config(hybrid_layers()).needs_kv_cache_zeroing
    assert not pool_config({"a": attention()}).needs_kv_cache_zeroing
