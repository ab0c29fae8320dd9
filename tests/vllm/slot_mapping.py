"""Runs vLLM's block table without Triton: its kernel's source, on numpy, one program at a time.

The CPU build has a kernel of its own that knows no context parallelism, so the one that does is
run as the Python it is written in, with as much of ``triton.language`` as it uses.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from vllm.v1.worker import block_table as stock
from vllm.v1.worker.block_table import ComputeSlotMappingKernel

from kvquarry_client.kernel_blocks import NO_SLOT, KernelBlocks


class _Scalar(int):
    """A loaded integer."""

    def to(self, dtype: object) -> _Scalar:
        return self


class _Array(np.ndarray):
    """Loaded integers."""

    def to(self, dtype: object) -> _Array:
        return self.astype(np.int64)


class _Pointer:
    """Into a flat array, at one or many offsets."""

    def __init__(self, memory: np.ndarray, offsets: Any = 0) -> None:
        self.memory, self.offsets = memory, offsets

    def __add__(self, offsets: Any) -> _Pointer:
        return _Pointer(self.memory, self.offsets + offsets)


def _load(pointer: _Pointer, mask: Any = None, other: int = 0) -> Any:
    if mask is None:
        return _Scalar(pointer.memory[pointer.offsets])
    offsets = np.where(mask, pointer.offsets, 0)
    return np.where(mask, pointer.memory[offsets], other).view(_Array)


def _store(pointer: _Pointer, values: Any, mask: Any) -> None:
    values = np.broadcast_to(values, np.shape(mask))
    pointer.memory[pointer.offsets[mask]] = values[mask]


class _SourceKernel:
    """Stands in for the compiled kernel that a block table launches."""

    def register_warmup(self, **_: object) -> None:
        """Nothing is compiled."""

    def __call__(
        self,
        num_reqs: int,
        num_tokens: int,
        max_num_tokens: int,
        query_start_loc: torch.Tensor,
        positions: torch.Tensor,
        block_table: torch.Tensor,
        block_table_stride: int,
        slot_mapping: torch.Tensor,
        kv_cache_block_size: int,
        total_cp_world_size: int,
        total_cp_rank: int,
        cp_kv_cache_interleave_size: int,
    ) -> None:
        for program in range(num_reqs + 1):
            stock.tl.program_id = lambda _, program=program: program
            stock.tl.num_programs = lambda _: num_reqs + 1
            ComputeSlotMappingKernel.kernel(
                num_tokens,
                max_num_tokens,
                _Pointer(query_start_loc.numpy()),
                _Pointer(positions.numpy()),
                _Pointer(block_table.numpy().reshape(-1)),
                block_table_stride,
                _Pointer(slot_mapping.numpy()),
                KV_CACHE_BLOCK_SIZE=kv_cache_block_size,
                TOTAL_CP_WORLD_SIZE=total_cp_world_size,
                TOTAL_CP_RANK=total_cp_rank,
                CP_KV_CACHE_INTERLEAVE_SIZE=cp_kv_cache_interleave_size,
                PAD_ID=NO_SLOT,
                BLOCK_SIZE=8,
            )


def stock_slots(
    monkeypatch: pytest.MonkeyPatch,
    kernel_blocks: KernelBlocks,
    rows: list[list[int]],
    positions: list[list[int]],
    rank: int,
) -> list[int]:
    """The slots vLLM's block table gives the requests' tokens, one request after another.

    Args:
        rows: For each request, its block ids.
        positions: For each request, the positions of its tokens in this step.
    """
    language = SimpleNamespace(
        arange=lambda first, end: np.arange(first, end).view(_Array),
        load=_load,
        store=_store,
        where=np.where,
        int64=np.int64,
    )
    monkeypatch.setattr(stock, "tl", language)
    monkeypatch.setattr(stock, "_COMPUTE_SLOT_MAPPING_KERNEL", _SourceKernel())
    num_tokens = sum(map(len, positions))
    table = stock.BlockTable(
        kernel_blocks.block_tokens,
        len(rows),
        max(map(len, rows)),
        num_tokens + 3,
        pin_memory=False,
        device=torch.device("cpu"),
        cp_kv_cache_interleave_size=kernel_blocks.interleave_tokens,
    )
    table.dcp_world_size, table.dcp_rank = kernel_blocks.num_ranks, rank
    for index, row in enumerate(rows):
        table.add_row(row, index)
    table.commit_block_table(len(rows))
    starts = torch.tensor(np.cumsum([0, *map(len, positions)]), dtype=torch.int32)
    flat = torch.tensor([position for one in positions for position in one], dtype=torch.int64)
    table.compute_slot_mapping(len(rows), starts, flat)
    slots: list[int] = table.slot_mapping.gpu.tolist()
    assert slots[num_tokens:] == [NO_SLOT] * 3, "the kernel pads what is left"
    return slots[:num_tokens]
