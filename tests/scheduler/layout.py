"""Where each block of each KV cache group lies, read from what vLLM hands to its workers.

Only ``KVCacheConfig.kv_cache_tensors`` and ``num_blocks_of`` are asked, as
``allocate_kv_cache`` does: the plan that made them is what is being tested. Every layer of a group
is cut the same way, so one layer per group tells all.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from vllm.v1.kv_cache_interface import (
    AttentionSpec,
    KVCacheConfig,
    KVCacheGroupSpec,
    KVCacheTensor,
    MambaSpec,
    SlidingWindowSpec,
)

from kvquarry_vllm.config import MixedKVCacheConfig
from tests.scheduler.geometry import DRAFT_LAYERS

#: Both stock vLLM and kvquarry keep block 0 of every class for skipped positions.
NULL_BLOCK = 0


@dataclass(frozen=True)
class GroupLayout:
    """The blocks of one group, in cells: the largest unit that divides every size in the pool.

    Block ``i`` covers ``[first_cell + i * stride, ... + size)``; the rest of a stride is padding.
    """

    index: int
    block_tokens: int
    first_cell: int
    stride: int
    size: int
    num_blocks: int
    num_speculative_blocks: int
    holds_states: bool
    size_class: int
    sliding_tokens: int = 0
    chunk_tokens: int = 0
    drafts: bool = False

    @property
    def cells_per_token(self) -> int:
        """Cells of one token's slot, for attention."""
        return self.size // self.block_tokens

    def first_read(self, position: int) -> int:
        """The first of the positions that the token at ``position`` attends to."""
        if self.sliding_tokens:
            return max(0, position - self.sliding_tokens + 1)
        if self.chunk_tokens:
            return position - position % self.chunk_tokens
        return 0

    def start(self, block: int) -> int:
        """The first cell of a block."""
        return self.first_cell + block * self.stride

    def starts(self, blocks: np.ndarray) -> np.ndarray:
        """The first cells of blocks."""
        return self.first_cell + blocks * self.stride


@dataclass(frozen=True)
class PoolLayout:
    """All groups of a pool over the same cells."""

    groups: tuple[GroupLayout, ...]
    num_cells: int

    @property
    def attention(self) -> list[GroupLayout]:
        """The groups that keep a slot per token."""
        return [group for group in self.groups if not group.holds_states]

    @property
    def of_target(self) -> list[GroupLayout]:
        """Those of them whose layers are the target's."""
        return [group for group in self.attention if not group.drafts]

    @property
    def of_drafts(self) -> list[GroupLayout]:
        """Those of them whose layers draft."""
        return [group for group in self.attention if group.drafts]

    @property
    def states(self) -> list[GroupLayout]:
        """The groups that keep recurrent states."""
        return [group for group in self.groups if group.holds_states]


def layout_of(config: KVCacheConfig) -> PoolLayout:
    """Read a layout from the tensors a config describes."""
    places = [_place(config, group) for group in config.kv_cache_groups]
    sizes = [size for place in places for size in place.sizes]
    cell_bytes = math.gcd(*sizes)
    groups = tuple(place.in_cells(index, cell_bytes, config) for index, place in enumerate(places))
    num_cells = max(group.start(group.num_blocks) for group in groups)
    return PoolLayout(groups, num_cells)


@dataclass(frozen=True)
class _Place:
    """One group's first layer, in bytes."""

    group: KVCacheGroupSpec
    tensor: KVCacheTensor
    first_byte: int

    @property
    def page_bytes(self) -> int:
        spec = self.group.kv_cache_spec
        if isinstance(spec, MambaSpec):
            return spec.state_content_size_bytes
        return spec.page_size_bytes

    @property
    def slot_bytes(self) -> int:
        """The smallest piece that is written by itself."""
        spec = self.group.kv_cache_spec
        if isinstance(spec, MambaSpec):
            return self.page_bytes
        return self.page_bytes // spec.block_size

    @property
    def sizes(self) -> tuple[int, ...]:
        return self.first_byte, self.tensor.block_stride, self.page_bytes, self.slot_bytes

    def in_cells(self, index: int, cell_bytes: int, config: KVCacheConfig) -> GroupLayout:
        spec = self.group.kv_cache_spec
        assert isinstance(spec, AttentionSpec | MambaSpec)
        return GroupLayout(
            index=index,
            block_tokens=spec.block_size,
            first_cell=self.first_byte // cell_bytes,
            stride=self.tensor.block_stride // cell_bytes,
            size=self.page_bytes // cell_bytes,
            num_blocks=config.num_blocks_of(self.tensor),
            num_speculative_blocks=getattr(spec, "num_speculative_blocks", 0),
            holds_states=isinstance(spec, MambaSpec),
            size_class=_size_class(config, index),
            sliding_tokens=spec.sliding_window if isinstance(spec, SlidingWindowSpec) else 0,
            chunk_tokens=getattr(spec, "attention_chunk_size", None) or 0,
            drafts=self.group.layer_names[0] in DRAFT_LAYERS,
        )


def _size_class(config: KVCacheConfig, group: int) -> int:
    """The word by which kvquarry says whose ids it means; stock has one class."""
    if isinstance(config, MixedKVCacheConfig):
        return config.plan.class_of_group[group]
    return 0


def _place(config: KVCacheConfig, group: KVCacheGroupSpec) -> _Place:
    layer = group.layer_names[0]
    for tensor in config.kv_cache_tensors:
        if layer in tensor.layers:
            first_byte = tensor.offset + tensor.layers.index(layer) * tensor.layer_stride
            return _Place(group, tensor, first_byte)
    raise LookupError(f"no tensor holds layer {layer}")
