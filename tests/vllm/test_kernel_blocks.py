"""One selection of the kernel block size, and one conversion of block tables, as vLLM has them."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from vllm.v1.attention.backend import MultipleOf as StockMultipleOf
from vllm.v1.worker.utils import AttentionGroup, select_common_block_size

from kvquarry_client.kernel_blocks import (
    MultipleOf,
    NoCommonKernelBlock,
    Supported,
    kernel_block_table,
    select_kernel_block_tokens,
)
from tests.vllm.configurations import attention

SIZES = st.sampled_from([8, 16, 24, 32, 48, 64, 96, 128])
SUPPORTED = st.lists(st.one_of(SIZES, SIZES.map(MultipleOf)), min_size=1, max_size=3)


def backend_taking(sizes: Supported) -> type:
    """A vLLM backend that declares these sizes."""
    declared = [StockMultipleOf(s.base) if isinstance(s, MultipleOf) else s for s in sizes]

    class Backend:
        @staticmethod
        def get_name() -> str:
            return "FAKE"

        @staticmethod
        def get_supported_kernel_block_sizes(spec: object = None) -> list[int | StockMultipleOf]:
            return declared

    return Backend


@given(
    block_tokens=st.sampled_from([16, 32, 48, 64, 96, 128, 256, 384]),
    backends=st.lists(SUPPORTED, min_size=1, max_size=3),
)
def test_the_selected_size_is_vllms(block_tokens: int, backends: list[Supported]) -> None:
    stock_backends = [backend_taking(sizes) for sizes in backends]
    try:
        expected = select_common_block_size(block_tokens, stock_backends)
    except ValueError:
        with pytest.raises(NoCommonKernelBlock):
            select_kernel_block_tokens(block_tokens, backends)
    else:
        assert select_kernel_block_tokens(block_tokens, backends) == expected


@given(
    blocks=st.lists(st.integers(0, 1000), min_size=1, max_size=20),
    kernel_block_tokens=st.sampled_from([8, 16, 32]),
)
def test_the_converted_table_is_vllms(blocks: list[int], kernel_block_tokens: int) -> None:
    spec = attention()
    ratio = spec.block_size // kernel_block_tokens
    table = torch.tensor([blocks, blocks[::-1]], dtype=torch.int32)
    stock = AttentionGroup(
        backend=backend_taking([kernel_block_tokens]),
        layer_names=[],
        kv_cache_spec=spec,
        kv_cache_group_id=0,
        kernel_block_size=kernel_block_tokens,
        kernel_block_table=torch.zeros(1, *table.shape, dtype=torch.int32).repeat(1, 1, ratio),
        kernel_block_offsets=torch.arange(ratio, dtype=torch.int32),
    )
    converted = kernel_block_table(table, ratio)
    assert torch.equal(converted, stock.map_to_kernel_block_table(table))
    assert converted.dtype == torch.int32
