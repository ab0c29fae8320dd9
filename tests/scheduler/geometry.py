"""The KV caches that are scheduled over, and how stock vLLM and kvquarry cut memory for them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from vllm.v1.kv_cache_interface import (
    ChunkedLocalAttentionSpec,
    FullAttentionSpec,
    KVCacheConfig,
    KVCacheGroupSpec,
    KVCacheSpec,
    KVCacheTensor,
    MambaSpec,
    SlidingWindowSpec,
)

NUM_LAYERS_PER_GROUP = 2
#: What a layout knows the layers by that draft; they are as many as any group's.
DRAFT_LAYERS = tuple(f"draft.{n}" for n in range(NUM_LAYERS_PER_GROUP))
_VALUE_BYTES = torch.float32.itemsize


@dataclass(frozen=True)
class Geometry:
    """A made-up model's KV cache.

    Attributes:
        block_tokens: Tokens per block, the same in every group.
        slot_bytes: Bytes of one token's KV in one layer; a multiple of 8.
        state_bytes: Bytes of one state in one layer; a multiple of 4.
        num_state_groups: Groups of recurrent states beside the attention group.
        sliding_tokens: Tokens of a sliding window, for one more group of attention; 0 for none.
        sliding_block_tokens: Tokens per block of that group; 0 for those of all others.
        sliding_slot_bytes: Bytes of one token in one of its layers; 0 for those of all others.
        chunk_tokens: Tokens of a local chunk, for one more group of attention; 0 for none.
        num_drafts: Draft tokens per step, for which states are held.
        draft_slot_bytes: Bytes of one token in one layer of those that draft, which are one more
            group of full attention; 0 for none.
        draft_block_tokens: Tokens per block of that group; 0 for those of all others.
        retention_interval: See vLLM's ``prefix_cache_retention_interval``.
    """

    block_tokens: int = 16
    slot_bytes: int = 64
    state_bytes: int = 0
    num_state_groups: int = 0
    sliding_tokens: int = 0
    sliding_block_tokens: int = 0
    sliding_slot_bytes: int = 0
    chunk_tokens: int = 0
    num_drafts: int = 0
    draft_slot_bytes: int = 0
    draft_block_tokens: int = 0
    retention_interval: int | None = 0

    @property
    def page_bytes(self) -> int:
        """Bytes of one attention block in one layer."""
        return self.block_tokens * self.slot_bytes

    @property
    def largest_page_bytes(self) -> int:
        """Bytes of one block of the largest kind in one layer."""
        sliding_tokens = self.sliding_block_tokens or self.block_tokens
        sliding = sliding_tokens * (self.sliding_slot_bytes or self.slot_bytes)
        drafting = (self.draft_block_tokens or self.block_tokens) * self.draft_slot_bytes
        windowed = sliding if self.sliding_tokens else 0
        return max(self.page_bytes, self.state_bytes, windowed, drafting)

    def groups(self, state_page_bytes: int | None) -> list[KVCacheGroupSpec]:
        """States first, as vLLM orders a hybrid's groups; full attention last."""
        specs: list[KVCacheSpec] = [
            self._state_spec(state_page_bytes) for _ in range(self.num_state_groups)
        ]
        if self.sliding_tokens:
            specs.append(self._sliding_spec())
        if self.chunk_tokens:
            specs.append(
                ChunkedLocalAttentionSpec(**self._attention, attention_chunk_size=self.chunk_tokens)
            )
        specs.append(FullAttentionSpec(**self._attention))
        groups = [
            KVCacheGroupSpec([f"{index}.{n}" for n in range(NUM_LAYERS_PER_GROUP)], spec)
            for index, spec in enumerate(specs)
        ]
        if self.draft_slot_bytes:
            block_tokens = self.draft_block_tokens or self.block_tokens
            spec = FullAttentionSpec(**_attention(block_tokens, self.draft_slot_bytes))
            groups.append(KVCacheGroupSpec(list(DRAFT_LAYERS), spec))
        return groups

    @property
    def _attention(self) -> dict[str, Any]:
        """What most attention has in common."""
        return _attention(self.block_tokens, self.slot_bytes)

    def _sliding_spec(self) -> SlidingWindowSpec:
        attention = _attention(
            self.sliding_block_tokens or self.block_tokens,
            self.sliding_slot_bytes or self.slot_bytes,
        )
        return SlidingWindowSpec(**attention, sliding_window=self.sliding_tokens)

    def _state_spec(self, page_bytes: int | None) -> MambaSpec:
        return MambaSpec(
            block_size=self.block_tokens,
            shapes=((self.state_bytes // _VALUE_BYTES,),),
            dtypes=(torch.float32,),
            page_size_padded=page_bytes,
            mamba_cache_mode="align",
            num_speculative_blocks=self.num_drafts,
        )


def _attention(block_tokens: int, slot_bytes: int) -> dict[str, Any]:
    return {
        "block_size": block_tokens,
        "num_kv_heads": 1,
        "head_size": slot_bytes // 2 // _VALUE_BYTES,
        "dtype": torch.float32,
    }


def stock_config(geometry: Geometry, num_blocks: int) -> KVCacheConfig:
    """One block size in bytes for all, layer after layer, as stock vLLM lays it out.

    Where a state is larger than an attention block, stock vLLM would inflate the block. The
    accounting does not look at bytes, so here only the strides grow: hits then fall on the same
    tokens as with blocks of mixed sizes.
    """
    page_bytes = geometry.largest_page_bytes
    groups = geometry.groups(page_bytes if geometry.num_state_groups else None)
    region_bytes = page_bytes * num_blocks
    tensors = [
        KVCacheTensor(
            size=NUM_LAYERS_PER_GROUP * region_bytes,
            layers=list(group.layer_names),
            layer_stride=region_bytes,
            block_stride=page_bytes,
        )
        for group in groups
    ]
    return KVCacheConfig(
        num_blocks=num_blocks,
        kv_cache_tensors=tensors,
        kv_cache_groups=groups,
        prefix_cache_retention_interval=geometry.retention_interval,
    )
