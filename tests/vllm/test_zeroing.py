"""Zeroing hits exactly the bytes of the blocks a step names, class by class."""

from __future__ import annotations

import pickle
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from vllm.v1.core.sched.output import SchedulerOutput
from vllm.v1.kv_cache_interface import FullAttentionSpec, KVCacheSpec, MambaSpec
from vllm.v1.worker.cpu_model_runner import CPUModelRunner
from vllm.v1.worker.gpu.model_runner import GPUModelRunner as SecondRunner
from vllm.v1.worker.gpu_model_runner import GPUModelRunner
from vllm.v1.worker.utils import AttentionGroup, KVBlockZeroer, allocate_kv_cache

from kvquarry_core.ids import BlockId
from kvquarry_vllm.config import MixedKVCacheConfig
from kvquarry_vllm.gates.replacements import making_zeroer, zeroing_by_class
from kvquarry_vllm.warmup import only_common_ids
from kvquarry_vllm.zeroing import ClassZeroer, MemoryOrders, zeroer_of
from tests.vllm.configurations import LAYOUTS, attention, hybrid_layers, pool_config, state

CPU = torch.device("cpu")
UNEQUAL: dict[str, KVCacheSpec] = {
    **{f"a.{index}": attention() for index in range(5)},
    **{f"s.{index}": state() for index in range(2)},
}
TWO_ATTENTION_SIZES: dict[str, KVCacheSpec] = {
    **{f"a.{index}": attention() for index in range(2)},
    **{f"w.{index}": attention(head_size=192) for index in range(3)},
    **{f"s.{index}": state() for index in range(2)},
}
MODELS = pytest.mark.parametrize(
    "layers",
    [hybrid_layers(), UNEQUAL, TWO_ATTENTION_SIZES],
    ids=["one group", "three groups", "two attention sizes"],
)
ARRANGED = pytest.mark.parametrize("layout", [LAYOUTS.LBHNC, LAYOUTS.BLHNC])


def config_of(
    layers: dict[str, KVCacheSpec], layout: LAYOUTS = LAYOUTS.LBHNC, mib: int = 12
) -> MixedKVCacheConfig:
    return pool_config(layers, mib << 20, cache_config__get_resolved_kv_cache_layout=lambda: layout)


def runner_over(config: MixedKVCacheConfig, layout: LAYOUTS = LAYOUTS.LBHNC) -> SimpleNamespace:
    """A model runner whose layers are bound to a pool full of ones."""
    views = allocate_kv_cache(config, CPU, layout)
    runner = SimpleNamespace(
        kv_cache_config=config,
        device=CPU,
        compilation_config=SimpleNamespace(
            static_forward_context={
                name: SimpleNamespace(kv_cache=view) for name, view in views.items()
            }
        ),
    )
    buffer_of(runner).fill_(1)
    return runner


def buffer_of(runner: SimpleNamespace) -> torch.Tensor:
    context = runner.compilation_config.static_forward_context
    storage = next(iter(context.values())).kv_cache.untyped_storage()
    return torch.empty(0, dtype=torch.int8).set_(storage)  # type: ignore[call-overload]


def bytes_of(
    config: MixedKVCacheConfig, blocks: MemoryOrders, layout: LAYOUTS = LAYOUTS.LBHNC
) -> torch.Tensor:
    """True where these blocks are, by the definition of a block id alone."""
    plan = config.plan
    marked = torch.zeros(plan.pool_bytes, dtype=torch.bool)
    for geometry, ids in zip(plan.classes, blocks.by_class, strict=True):
        stride = geometry.stride_bytes
        for layer in range(plan.num_regions):
            for block in ids:
                if layout.is_block_outermost:
                    start = (block * plan.num_regions + layer) * stride
                else:
                    start = layer * plan.region_bytes + block * stride
                marked[start : start + stride] = True
    return marked


def some_of_each_attention_class(config: MixedKVCacheConfig) -> MemoryOrders:
    """A few ids, the last one among them; none of a state."""
    by_class: list[tuple[BlockId, ...]] = [()] * len(config.plan.classes)
    for index, group in enumerate(config.kv_cache_groups):
        if isinstance(group.kv_cache_spec, FullAttentionSpec):
            size_class = config.plan.class_of_group[index]
            last = config.plan.classes[size_class].num_blocks - 1
            by_class[size_class] = tuple(map(BlockId, (3 + size_class, 11, last)))
    return MemoryOrders(tuple(by_class))


@MODELS
@ARRANGED
def test_the_named_blocks_are_zeroed_and_nothing_else(
    layers: dict[str, KVCacheSpec], layout: LAYOUTS
) -> None:
    config = config_of(layers, layout)
    runner = runner_over(config, layout)
    blocks = some_of_each_attention_class(config)
    zeroer_of(runner).zero_block_ids(blocks)
    assert torch.equal(buffer_of(runner) == 0, bytes_of(config, blocks, layout))


@MODELS
@ARRANGED
def test_a_device_that_fills_by_index_zeroes_the_same(
    layers: dict[str, KVCacheSpec], layout: LAYOUTS
) -> None:
    """What a GPU is asked to do, done by torch's own reference."""
    config = config_of(layers, layout)
    runner = runner_over(config, layout)
    blocks = some_of_each_attention_class(config)
    for view, ids in zip(zeroer_of(runner)._blocks, blocks.by_class, strict=True):
        view.index_fill_(0, torch.tensor(ids, dtype=torch.int64), 0)
    assert torch.equal(buffer_of(runner) == 0, bytes_of(config, blocks, layout))


@MODELS
def test_a_layers_own_view_of_a_zeroed_block_is_zero(layers: dict[str, KVCacheSpec]) -> None:
    config = config_of(layers)
    runner = runner_over(config)
    blocks = some_of_each_attention_class(config)
    zeroer_of(runner).zero_block_ids(blocks)
    for name, layer in runner.compilation_config.static_forward_context.items():
        size_class = config.plan.class_of_group[config.group_of_layer(name)]
        for block in blocks.by_class[size_class]:
            assert not layer.kv_cache[block].any(), f"block {block} of {name}"


def test_stocks_flat_list_cannot_say_which_size_it_means() -> None:
    """The danger is real: told to zero a wide block, stock zeroes a narrow one of that number."""
    config = config_of(TWO_ATTENTION_SIZES)
    runner = runner_over(config)
    wide = config.plan.class_of_group[config.group_of_layer("w.0")]
    meant: list[tuple[BlockId, ...]] = [()] * len(config.plan.classes)
    meant[wide] = (BlockId(3),)
    CPUModelRunner._zero_block_ids(runner, [3])
    zeroed = buffer_of(runner) == 0
    assert (zeroed & ~bytes_of(config, MemoryOrders(tuple(meant)))).any()


def stock_zeroer(config: MixedKVCacheConfig, runner: SimpleNamespace) -> KVBlockZeroer:
    groups = [
        AttentionGroup(None, group.layer_names, group.kv_cache_spec, index)  # type: ignore[arg-type]
        for index, group in enumerate(config.kv_cache_groups)
    ]
    sizes = [group.kv_cache_spec.block_size for group in config.kv_cache_groups]
    context = runner.compilation_config.static_forward_context
    return KVBlockZeroer(CPU, groups, sizes, context, runner.kv_cache_config.num_blocks)


def test_a_zeroer_built_while_ids_are_few_counts_the_blocks_that_are_there() -> None:
    """Stock divides what a tensor has by `num_blocks`: 126 blocks by 56, in this pool of 8 MiB."""
    config = config_of(hybrid_layers(), mib=8)
    runner = runner_over(config)
    blocks = some_of_each_attention_class(config)
    with only_common_ids(runner):
        with pytest.raises(AssertionError, match="126 kernel blocks is not a multiple of 56"):
            stock_zeroer(config, runner)
        zeroer = zeroer_of(runner)
    zeroer.zero_block_ids(blocks)
    assert torch.equal(buffer_of(runner) == 0, bytes_of(config, blocks))


@MODELS
@pytest.mark.parametrize("mib", [3, 8, 9, 12, 31])
def test_one_count_of_blocks_is_in_the_configuration(
    layers: dict[str, KVCacheSpec], mib: int
) -> None:
    config = config_of(layers, mib=mib)
    plan = config.plan
    first = next(
        index
        for index, group in enumerate(config.kv_cache_groups)
        if not isinstance(group.kv_cache_spec, MambaSpec)
    )
    assert config.num_blocks == config.num_blocks_of(config.kv_cache_tensors[first])
    for tensor, size_class in zip(config.kv_cache_tensors, plan.class_of_group, strict=True):
        assert config.num_blocks_of(tensor) == plan.classes[size_class].num_blocks


def test_a_configuration_that_counts_otherwise_than_its_plan_cannot_be_made() -> None:
    config = config_of(hybrid_layers())
    fields = {name: getattr(config, name) for name in config.__dataclass_fields__}
    assert MixedKVCacheConfig(**fields) == config
    with pytest.raises(AssertionError, match="of a plan with"):
        MixedKVCacheConfig(**(fields | {"num_blocks": config.num_blocks_of_smallest_class}))


@pytest.mark.parametrize(
    ("runner_class", "attribute"),
    [(GPUModelRunner, "_kv_block_zeroer"), (SecondRunner, "kv_block_zeroer")],
)
def test_both_generations_of_runners_get_a_zeroer_by_class(
    runner_class: Any, attribute: str
) -> None:
    """vLLM calls `<attribute>.zero_block_ids(new_block_ids_to_zero)` in both."""
    runner = runner_over(config_of(hybrid_layers()))
    make = making_zeroer(attribute)(runner_class._init_kv_zero_meta)
    make(runner)
    assert isinstance(getattr(runner, attribute), ClassZeroer)


def test_a_stock_pool_keeps_stocks_zeroer() -> None:
    called: list[object] = []
    runner = SimpleNamespace(kv_cache_config="stock")
    making_zeroer("_kv_block_zeroer")(called.append)(runner)
    zeroing_by_class(lambda _, ids: called.append(ids))(runner, [3])
    assert called == [runner, [3]]


@MODELS
def test_the_cpu_runner_zeroes_by_class(layers: dict[str, KVCacheSpec]) -> None:
    config = config_of(layers)
    runner = runner_over(config)
    runner._kv_block_zeroer = zeroer_of(runner)
    blocks = some_of_each_attention_class(config)
    zeroing_by_class(CPUModelRunner._zero_block_ids)(runner, blocks)
    assert torch.equal(buffer_of(runner) == 0, bytes_of(config, blocks))


def test_vllms_warm_up_zeroes_the_null_block_alone() -> None:
    config = config_of(TWO_ATTENTION_SIZES)
    runner = runner_over(config)
    zeroer_of(runner).warmup(config.num_blocks)
    null = MemoryOrders(((BlockId(0),),) * len(config.plan.classes))
    assert torch.equal(buffer_of(runner) == 0, bytes_of(config, null))


def test_blocks_to_zero_reach_a_worker_in_another_process() -> None:
    blocks = MemoryOrders(((BlockId(3), BlockId(7)), ()))
    output = SchedulerOutput.make_empty()
    output.new_block_ids_to_zero = blocks  # type: ignore[assignment]
    assert pickle.loads(pickle.dumps(output)).new_block_ids_to_zero == blocks
    assert blocks
    assert not MemoryOrders(((), ()))


def test_a_pool_of_several_classes_asks_for_zeroing_and_one_of_a_single_class_does_not() -> None:
    assert config_of(hybrid_layers()).needs_kv_cache_zeroing
    assert config_of(TWO_ATTENTION_SIZES).needs_kv_cache_zeroing
    assert not pool_config({"a": attention()}).needs_kv_cache_zeroing
