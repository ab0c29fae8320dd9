"""vLLM's model runners go by our kernel blocks: handed out once, never worked out by themselves."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
import torch
import vllm
from hypothesis import given, settings
from hypothesis import strategies as st
from vllm.model_executor.layers.attention_layer_base import AttentionLayerBase
from vllm.v1.kv_cache_interface import EncoderOnlyAttentionSpec, KVCacheConfig, KVCacheGroupSpec
from vllm.v1.worker import utils
from vllm.v1.worker.gpu import attn_utils
from vllm.v1.worker.utils import AttentionGroup, prepare_kernel_block_sizes

from kvquarry_client.kernel_blocks import KernelBlocks, NoCommonKernelBlock, Supported
from kvquarry_vllm import kernel_blocks
from kvquarry_vllm.config import MixedKVCacheConfig
from kvquarry_vllm.gates import hooks
from kvquarry_vllm.gates.kernel_block_hooks import (
    converting,
    kernel_block_hooks,
    repeating,
    selecting,
)
from kvquarry_vllm.kernel_tables import selected_for
from kvquarry_vllm.refusals import SettingRefused
from tests.vllm.configurations import (
    BLOCK_TOKENS,
    LAYOUTS,
    attention,
    attention_groups,
    attention_layers,
    backend_taking,
    hybrid_layers,
    pool_config,
    runner_with,
    state,
    vllm_config,
)
from tests.vllm.test_kernel_blocks import declarations

CPU = torch.device("cpu")
NUM_REQUESTS = 3
LAYERS = {
    "hybrid": hybrid_layers(),
    "attention only": attention_layers(),
    "long blocks": {"a": attention(block_size=384), "s": state(block_size=384)},
}
CONFIGS = {name: pool_config(layers) for name, layers in LAYERS.items()}
TABLE = torch.tensor([[3, 0]], dtype=torch.int32)
VLLM = Path(vllm.__file__).parent


@pytest.fixture(scope="module", autouse=True)
def hooked() -> Iterator[None]:
    """vLLM's own names are replaced while this module runs."""
    mine = [hook for hook in kernel_block_hooks() if hook.module == utils.__name__]
    names = [(_holder(hook.name), hook.name.rpartition(".")[2]) for hook in mine]
    stock = [vars(holder)[last] for holder, last in names]
    hooks.apply(mine)
    yield
    for (holder, last), original in zip(names, stock, strict=True):
        setattr(holder, last, original)


def _holder(name: str) -> Any:
    return AttentionGroup if name.startswith("AttentionGroup.") else utils


def never(*_: Any, **__: Any) -> Any:
    raise AssertionError("vLLM worked this out by itself")


def build(groups: list[list[AttentionGroup]], sizes: list[int]) -> None:
    """As runners of both generations do right after they have the sizes."""
    config = vllm_config(scheduler_config__max_num_seqs=NUM_REQUESTS)
    for layers, size in zip(groups, sizes, strict=True):
        for one in layers:
            one.create_metadata_builders(config, CPU, size)


def tables(data: st.DataObject) -> torch.Tensor:
    """Of a step: some requests, with no more blocks than the longest request may have."""
    row = st.lists(st.integers(0, 500), min_size=2, max_size=2)
    rows = data.draw(st.lists(row, min_size=1, max_size=NUM_REQUESTS))
    return torch.tensor(rows, dtype=torch.int32)


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
@given(declared=declarations(), data=st.data())
@settings(max_examples=100, deadline=None)
def test_a_runner_does_with_ours_what_it_would_do_by_itself(
    config: MixedKVCacheConfig, declared: list[Supported], data: st.DataObject
) -> None:
    by_itself = attention_groups(config, map(backend_taking, declared))
    try:
        sizes = prepare_kernel_block_sizes(config, by_itself)
    except ValueError:
        with pytest.raises(NoCommonKernelBlock):
            runner_with(config, declared)
        return
    runner = runner_with(config, declared)
    assert runner.kernel_block_sizes == sizes
    build(by_itself, sizes)
    build(runner.attn_groups, sizes)
    for stock, ours in zip(chain(*by_itself), chain(*runner.attn_groups), strict=True):
        assert ours.kernel_block_size == stock.kernel_block_size
        built, expected = ours.metadata_builders[0], stock.metadata_builders[0]
        assert built.spec == expected.spec
        table = tables(data)
        converted = ours.map_to_kernel_block_table(table)
        assert torch.equal(converted, stock.map_to_kernel_block_table(table))
        if ours.kernel_block_size is None:
            assert converted is table
        else:
            assert converted.data_ptr() == ours.kernel_block_table.data_ptr()


def test_vllm_neither_selects_nor_converts_for_a_pool_of_ours(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(utils, "select_common_block_size", repeating(never))
    monkeypatch.setattr(AttentionGroup, "map_to_kernel_block_table", converting(never))
    runner = runner_with(CONFIGS["hybrid"], [[16, 32]])
    build(runner.attn_groups, runner.kernel_block_sizes)
    converted = splitting(runner).map_to_kernel_block_table(TABLE)
    assert converted.tolist() == [[6, 7, 0, 1]]


def splitting(runner: Any) -> AttentionGroup:
    """The runner's only attention group whose kernels address parts of blocks."""
    (group,) = (one for one in chain(*runner.attn_groups) if one.kernel_block_size is not None)
    return group


def test_a_fault_in_our_conversion_is_what_the_runner_gets(monkeypatch: pytest.MonkeyPatch) -> None:
    runner = runner_with(CONFIGS["hybrid"], [[32]])
    build(runner.attn_groups, runner.kernel_block_sizes)
    wrong = torch.full((1, 4), 77, dtype=torch.int32)
    monkeypatch.setattr(KernelBlocks, "table", lambda *_, **__: wrong)
    assert splitting(runner).map_to_kernel_block_table(TABLE) is wrong


def test_a_fault_in_our_selection_is_what_the_runner_gets(monkeypatch: pytest.MonkeyPatch) -> None:
    def selected(block_tokens: int, _: list[Supported]) -> KernelBlocks:
        return KernelBlocks(block_tokens, 8)

    monkeypatch.setattr(kernel_blocks, "select_kernel_blocks", selected)
    runner = runner_with(CONFIGS["attention only"], [[32]])
    build(runner.attn_groups, runner.kernel_block_sizes)
    assert runner.kernel_block_sizes == [8]
    assert runner.attn_groups[0][0].kernel_block_size == 8


def test_who_asks_again_gets_the_selection_the_tensors_were_cut_by() -> None:
    """A draft model's runner has some of the layers, whose backend alone would take more."""
    runner = runner_with(CONFIGS["attention only"], [[32, 64], [32]])
    drafting = attention_groups(runner.kv_cache_config, [backend_taking([32, 64])])
    assert prepare_kernel_block_sizes(CONFIGS["attention only"], drafting) == [BLOCK_TOKENS]
    ours = selecting(never)
    assert ours(runner.kv_cache_config, drafting) == [32] == runner.kernel_block_sizes
    (blocks,) = runner.kv_cache_config.kernel_blocks
    assert selected_for(drafting[0][0]) is blocks
    assert all(selected_for(one) is blocks for one in runner.attn_groups[0])


class Layer(AttentionLayerBase):
    """An attention layer with a backend."""

    def __init__(self, takes: Supported) -> None:
        self._backend = backend_taking(takes)

    def get_attn_backend(self) -> Any:
        return self._backend

    def get_kv_cache_spec(self, vllm_config: Any) -> Any:
        raise NotImplementedError


def test_vllms_second_runner_and_its_drafts_go_by_one_selection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its own setup of attention: for all layers first, then for those of the drafts alone."""
    monkeypatch.setattr(attn_utils, "prepare_kernel_block_sizes", selecting(never))
    config = pool_config(attention_layers())
    layers = {name: Layer([32]) for name in attention_layers()} | {"layers.3": Layer([32, 64])}
    vllm = vllm_config(
        compilation_config__static_forward_context=layers,
        cache_config__kv_sharing_fast_prefill=False,
        parallel_config__use_ubatching=False,
        scheduler_config__max_num_seqs=NUM_REQUESTS,
    )
    drafts = {"layers.3"}
    groups, _, sizes = attn_utils.init_attn_backend(config, vllm, CPU, draft_layer_names=drafts)
    drafting, _, again = attn_utils.init_attn_backend(config, vllm, CPU, active_layer_names=drafts)
    assert sizes == again == [32]
    (blocks,) = config.kernel_blocks
    assert {id(selected_for(one)) for one in chain(*groups, *drafting)} == {id(blocks)}
    assert [one.map_to_kernel_block_table(TABLE).tolist() for one in chain(*groups, *drafting)] == [
        [[6, 7, 0, 1]]
    ] * 3


def test_states_have_no_kernel_blocks_and_keep_their_size() -> None:
    runner = runner_with(CONFIGS["hybrid"], [[32]])
    assert runner.kernel_block_sizes == [BLOCK_TOKENS, BLOCK_TOKENS, BLOCK_TOKENS, 32]
    found = runner.kv_cache_config.kernel_blocks
    assert found == (None, None, None, KernelBlocks(BLOCK_TOKENS, 32))


def test_groups_without_a_cache_have_no_entry() -> None:
    """vLLM's first runner adds encoders to its copy of the configuration."""
    config = pool_config(attention_layers())
    spec = EncoderOnlyAttentionSpec(
        block_size=BLOCK_TOKENS, num_kv_heads=2, head_size=64, dtype=torch.bfloat16
    )
    config.kv_cache_groups = [*config.kv_cache_groups, KVCacheGroupSpec(["encoder"], spec)]
    stock = prepare_kernel_block_sizes(config, attention_groups(config, [backend_taking([32])]))
    assert runner_with(config, [[32]]).kernel_block_sizes == stock == [32]


def test_with_blocks_outermost_a_block_that_must_be_split_is_refused() -> None:
    config = pool_config(
        hybrid_layers(), cache_config__get_resolved_kv_cache_layout=lambda: LAYOUTS.BLHNC
    )
    assert runner_with(config, [[32, 64]]).kernel_block_sizes == [BLOCK_TOKENS] * 4
    with pytest.raises(SettingRefused, match=r"--block-size 64.*TAKES_\[32\].*--block-size 32"):
        runner_with(config, [[32]])


def test_a_stock_pool_is_selected_and_converted_for_by_vllm(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(kernel_blocks, "kernel_block_sizes", never)
    monkeypatch.setattr(KernelBlocks, "table", never)
    ours = CONFIGS["attention only"]
    stock = KVCacheConfig(
        num_blocks=ours.num_blocks,
        kv_cache_tensors=ours.kv_cache_tensors,
        kv_cache_groups=ours.kv_cache_groups,
    )
    groups = attention_groups(ours, [backend_taking([32])])
    sizes = selecting(prepare_kernel_block_sizes)(stock, groups)
    build(groups, sizes)
    assert groups[0][0].map_to_kernel_block_table(TABLE).tolist() == [[6, 7, 0, 1]]


#: Who asks for kernel blocks in vLLM, and why that is one of ours or none in scope.
ASKING = {
    "prepare_kernel_block_sizes": {"v1/worker/gpu_model_runner.py", "v1/worker/gpu/attn_utils.py"},
    "select_common_block_size": {
        "v1/worker/utils.py",
        # Refused with kvquarry: HiSparse and KV connectors.
        "v1/hisparse/binding.py",
        "distributed/kv_transfer/kv_connector/v1/mooncake/mooncake_connector.py",
        "distributed/kv_transfer/kv_connector/v1/nixl/base_worker.py",
    },
    "map_to_kernel_block_table": {
        "v1/worker/utils.py",
        "v1/worker/gpu_model_runner.py",
        "v1/worker/gpu/spec_decode/target_dependent_ar/speculator.py",
    },
}


def test_nobody_else_in_vllm_selects_or_converts() -> None:
    called = re.compile(rf"^[^#\n]*?(?<!def )\b({'|'.join(ASKING)})\(", re.MULTILINE)
    found: dict[str, set[str]] = {name: set() for name in ASKING}
    for path in VLLM.rglob("*.py"):
        for name in called.findall(path.read_text(encoding="utf-8")):
            found[name].add(path.relative_to(VLLM).as_posix())
    assert found == ASKING


def test_both_generations_of_runners_ask_through_our_hooks() -> None:
    asking = {
        hook.module.removeprefix("vllm.").replace(".", "/") + ".py"
        for hook in kernel_block_hooks()
        if hook.replace is selecting
    }
    assert asking == ASKING["prepare_kernel_block_sizes"]
