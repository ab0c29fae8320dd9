"""vLLM's groups of every kind as the pool sees them, and what a request takes of each."""

from __future__ import annotations

from typing import Any

import pytest
from vllm.v1.kv_cache_interface import (
    ChunkedLocalAttentionSpec,
    CircularBufferSpec,
    CrossAttentionSpec,
    KVCacheGroupSpec,
    KVCacheSpec,
    SlidingWindowSpec,
)

from kvquarry_core.plan import GroupKind, GroupSpec
from kvquarry_vllm import capacity
from kvquarry_vllm.capacity import RequestSize
from kvquarry_vllm.grouping import group_specs
from tests.vllm.configurations import BLOCK_TOKENS, attention, state, vllm_config

LIKE = {"block_size": BLOCK_TOKENS, "num_kv_heads": 2, "head_size": 64, "dtype": attention().dtype}
SLIDING = SlidingWindowSpec(**LIKE, sliding_window=1000)
CHUNKED = ChunkedLocalAttentionSpec(**LIKE, attention_chunk_size=1024)
CROSS = CrossAttentionSpec(**LIKE)
RING = CircularBufferSpec(**LIKE)


def groups(*specs: KVCacheSpec) -> tuple[GroupSpec, ...]:
    return group_specs([KVCacheGroupSpec([f"{i}.0", f"{i}.1"], s) for i, s in enumerate(specs)])


def test_every_kind_is_told_with_its_window() -> None:
    told = [(g.kind, g.window_tokens) for g in groups(SLIDING, CHUNKED, CROSS, RING, state())]
    assert told == [
        (GroupKind.SLIDING_WINDOW, 1000),
        (GroupKind.CHUNKED_LOCAL, 1024),
        (GroupKind.CROSS_ATTENTION, 0),
        (GroupKind.SCRATCH, 0),
        (GroupKind.RECURRENT_STATE, 0),
    ]


@pytest.mark.parametrize("spec", [SLIDING, CHUNKED], ids=["sliding", "chunked"])
@pytest.mark.parametrize("in_flight", [1, 64, 500, 2048, 4096])
@pytest.mark.parametrize("num_tokens", [100, 5000, 50_000])
def test_a_request_takes_no_more_of_a_window_than_stock_reserves(
    spec: Any, in_flight: int, num_tokens: int
) -> None:
    """Stock counts one block more where a window is not known to begin within one."""
    size = RequestSize(num_tokens, in_flight)
    [ours] = capacity.blocks_of_request(groups(spec), size)
    stock = spec.max_admission_blocks_per_request(in_flight, num_tokens)
    assert stock - 1 <= ours <= stock


def test_the_largest_request_is_read_from_the_configuration() -> None:
    config = vllm_config(
        max_in_flight_tokens=4096,
        num_lookahead_tokens=3,
        model_config__is_encoder_decoder=True,
        scheduler_config__max_num_encoder_input_tokens=1500,
    )
    assert capacity.largest_request(config) == RequestSize(1024, 4099, 1500)
    assert capacity.largest_request(vllm_config()) == RequestSize(1024, 2048, 0)


def test_an_encoder_and_scratch_take_the_same_for_any_length() -> None:
    for num_tokens in (100, 10_000):
        size = RequestSize(num_tokens, 64, encoder_tokens=1500)
        assert capacity.blocks_of_request(groups(CROSS, RING), size) == [24, 1]


def test_a_pool_without_full_attention_is_counted_in_what_grows() -> None:
    assert capacity.counted_group(groups(state(), SLIDING)) == 1
    assert capacity.counted_group(groups(state(), SLIDING, attention())) == 2
