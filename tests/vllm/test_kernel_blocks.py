"""One selection of the kernel block size, and one conversion of block tables, as vLLM has them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from vllm.v1.attention.backend import MultipleOf as StockMultipleOf
from vllm.v1.kv_cache_interface import MLAAttentionSpec
from vllm.v1.worker.utils import AttentionGroup, select_common_block_size

from kvquarry_client.kernel_blocks import (
    NO_SLOT,
    KernelBlocks,
    MultipleOf,
    NoCommonKernelBlock,
    Supported,
    select_kernel_blocks,
)
from kvquarry_vllm.alignment import declared_by
from tests.vllm.configurations import attention, backend_taking
from tests.vllm.slot_mapping import stock_slots

#: What backends of each kind declare: FlashAttention, FlashInfer, Triton; AITER, unified; latent
#: attention, its sparse forms and their indexers.
DECLARED: dict[str, list[Supported]] = {
    "CUDA": [[MultipleOf(16)], [16, 32, 64], [64], [128], [64, 128, 192, 256], [MultipleOf(1)]],
    "ROCm": [[MultipleOf(16)], [16, 32], [1, MultipleOf(16)], [64, 128], [64, 128, 256]],
    "MLA": [[64], [128], [32, 64], [MultipleOf(16)], [MultipleOf(64)], [1, MultipleOf(16)], [256]],
}
SIZES = st.sampled_from([1, 8, 16, 24, 32, 48, 64, 96, 128, 256])
ANYTHING = st.lists(st.one_of(SIZES, SIZES.map(MultipleOf)), min_size=1, max_size=3)
BLOCKS = st.sampled_from([16, 32, 48, 64, 96, 128, 256, 384, 528, 1056, 1888])


def declarations() -> st.SearchStrategy[list[Supported]]:
    """What the backends of one group take: all of one platform, or anything at all."""
    of_platform = [st.sampled_from(DECLARED[name]) for name in DECLARED]
    return st.one_of([st.lists(one, min_size=1, max_size=3) for one in (*of_platform, ANYTHING)])


@given(block_tokens=BLOCKS, backends=declarations())
@settings(max_examples=300, deadline=None)
def test_the_selected_size_is_vllms_and_the_largest_divisor_all_take(
    block_tokens: int, backends: list[Supported]
) -> None:
    expected = largest_divisor_taken(block_tokens, backends)
    stock_backends = [backend_taking(sizes) for sizes in backends]
    declared = [declared_by(backend, attention()) for backend in stock_backends]
    if expected is None:
        with pytest.raises(ValueError, match="No common block size"):
            select_common_block_size(block_tokens, stock_backends)
        with pytest.raises(NoCommonKernelBlock):
            select_kernel_blocks(block_tokens, declared)
    else:
        assert select_common_block_size(block_tokens, stock_backends) == expected
        assert select_kernel_blocks(block_tokens, declared).kernel_block_tokens == expected


def largest_divisor_taken(block_tokens: int, backends: list[Supported]) -> int | None:
    """By trying every size there is."""
    for tokens in range(block_tokens, 0, -1):
        fits = [
            any(tokens % s.base == 0 if isinstance(s, MultipleOf) else tokens == s for s in sizes)
            for sizes in backends
        ]
        if block_tokens % tokens == 0 and all(fits):
            return tokens
    return None


def test_a_backend_is_asked_for_the_format_it_will_get() -> None:
    """Some take other sizes for a quantised cache."""
    spec = MLAAttentionSpec(block_size=64, num_kv_heads=1, head_size=576, dtype=torch.uint8)
    asked: list[object] = []
    backend = SimpleNamespace(
        get_supported_kernel_block_sizes=lambda spec: asked.append(spec) or [StockMultipleOf(8), 64]
    )
    assert declared_by(backend, spec) == [MultipleOf(8), 64]
    assert asked == [spec]


@given(
    blocks=st.lists(st.integers(0, 1000), min_size=1, max_size=20),
    per_block=st.integers(1, 66),
    kernel_block_tokens=st.sampled_from([1, 8, 16, 64]),
)
@settings(deadline=None)
def test_the_converted_table_is_vllms_and_a_loops(
    blocks: list[int], per_block: int, kernel_block_tokens: int
) -> None:
    spec = attention(block_size=per_block * kernel_block_tokens)
    table = torch.tensor([blocks, blocks[::-1]], dtype=torch.int32)
    stock = AttentionGroup(
        backend=backend_taking([kernel_block_tokens]),
        layer_names=[],
        kv_cache_spec=spec,
        kv_cache_group_id=0,
        kernel_block_size=kernel_block_tokens,
        kernel_block_table=torch.zeros(1, 2, len(blocks) * per_block, dtype=torch.int32),
        kernel_block_offsets=torch.arange(per_block, dtype=torch.int32),
    )
    converted = KernelBlocks(spec.block_size, kernel_block_tokens).table(table)
    assert torch.equal(converted, stock.map_to_kernel_block_table(table))
    assert converted.dtype == torch.int32
    by_loop = [block * per_block + j for block in blocks for j in range(per_block)]
    assert converted[0].tolist() == by_loop


@st.composite
def shared_contexts(draw: st.DrawFn) -> KernelBlocks:
    """Kernel blocks of any whole ratio, on one rank or several."""
    interleave = draw(st.integers(1, 4))
    kernel_block_tokens = interleave * draw(st.integers(1, 4))
    block_tokens = kernel_block_tokens * draw(st.integers(1, 5))
    num_ranks = draw(st.integers(1, 4))
    return KernelBlocks(block_tokens, kernel_block_tokens, num_ranks, interleave)


@given(kernel_blocks=shared_contexts(), data=st.data())
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_slots_are_vllms_and_a_loops_on_every_rank(
    monkeypatch: pytest.MonkeyPatch, kernel_blocks: KernelBlocks, data: st.DataObject
) -> None:
    num_blocks = 4
    ids = st.lists(st.integers(0, 99), min_size=num_blocks, max_size=num_blocks)
    rows = data.draw(st.lists(ids, min_size=1, max_size=3))
    end = kernel_blocks.span_tokens * num_blocks
    stretches = [data.draw(st.tuples(st.integers(0, end), st.integers(0, end))) for _ in rows]
    positions = [list(range(min(one), max(one))) for one in stretches]
    for rank in range(kernel_blocks.num_ranks):
        with monkeypatch.context() as patch:
            stock = stock_slots(patch, kernel_blocks, rows, positions, rank)
        ours = [
            slot
            for row, one in zip(rows, positions, strict=True)
            for slot in kernel_blocks.slots(
                torch.tensor(row), torch.tensor(one, dtype=torch.long), rank=rank
            ).tolist()
        ]
        assert ours == stock
    assert_dealt_out_in_turn(kernel_blocks, torch.tensor(rows[0]))


def assert_dealt_out_in_turn(kernel_blocks: KernelBlocks, row: torch.Tensor) -> None:
    """Token by token: each rank fills its blocks from the front, `interleave` tokens at a time."""
    tokens = torch.arange(kernel_blocks.span_tokens * len(row))
    by_rank = [kernel_blocks.slots(row, tokens, rank=r) for r in range(kernel_blocks.num_ranks)]
    filled = [0] * kernel_blocks.num_ranks
    for token in tokens.tolist():
        owner = token // kernel_blocks.interleave_tokens % kernel_blocks.num_ranks
        block, place = divmod(filled[owner], kernel_blocks.block_tokens)
        expected = [NO_SLOT] * kernel_blocks.num_ranks
        expected[owner] = int(row[block]) * kernel_blocks.block_tokens + place
        assert [int(slots[token]) for slots in by_rank] == expected
        filled[owner] += 1


@given(kernel_blocks=shared_contexts(), row=st.lists(st.integers(0, 99), min_size=3, max_size=3))
@settings(deadline=None)
def test_a_tokens_slot_lies_in_its_column_of_the_kernel_block_table(
    kernel_blocks: KernelBlocks, row: list[int]
) -> None:
    blocks = torch.tensor(row)
    columns = kernel_blocks.table(blocks)
    num_tokens = kernel_blocks.span_tokens * len(row)
    assert len(columns) == kernel_blocks.num_columns(num_tokens)
    for rank in range(kernel_blocks.num_ranks):
        slots = kernel_blocks.slots(blocks, torch.arange(num_tokens), rank=rank)
        held = slots[slots != NO_SLOT]
        expected = columns.repeat_interleave(kernel_blocks.kernel_block_tokens)
        assert torch.equal(held // kernel_blocks.kernel_block_tokens, expected)


@given(num_ranks=st.integers(1, 8), num_tokens=st.integers(1, 5000), per_block=st.integers(1, 8))
def test_a_table_is_as_wide_as_vllms(num_ranks: int, num_tokens: int, per_block: int) -> None:
    spec = attention(block_size=16 * per_block)
    config: Any = SimpleNamespace(
        parallel_config=SimpleNamespace(decode_context_parallel_size=num_ranks)
    )
    ours = KernelBlocks(spec.block_size, 16, num_ranks).num_columns(num_tokens)
    assert ours == spec.max_num_blocks_per_req(config, num_tokens) * per_block
