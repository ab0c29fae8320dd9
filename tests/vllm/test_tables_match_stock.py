"""Our block tables hold blocks at exactly the positions where vLLM's own managers hold them."""

import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from vllm.v1.core.block_pool import BlockPool
from vllm.v1.core.single_type_kv_cache_manager import (
    ChunkedLocalAttentionManager,
    CircularBufferManager,
    CrossAttentionManager,
    FullAttentionManager,
    MambaManager,
    SingleTypeKVCacheManager,
    SlidingWindowManager,
)
from vllm.v1.kv_cache_interface import (
    ChunkedLocalAttentionSpec,
    CircularBufferSpec,
    CrossAttentionSpec,
    FullAttentionSpec,
    MambaSpec,
    SlidingWindowSpec,
)

from kvquarry_client.tables import BlockTable, make_table
from kvquarry_core.ids import NULL_BLOCK, BlockId
from kvquarry_core.plan import GroupKind, GroupSpec
from tests.core import reference
from tests.strategies import WINDOWED

BLOCK = 4
REQUEST = "r"


def group(kind: GroupKind, window_tokens: int, num_speculative: int) -> GroupSpec:
    """A group of a kind; what does not apply to it is left out."""
    return GroupSpec(
        kind,
        BLOCK,
        16,
        1,
        num_speculative_blocks=num_speculative if kind is GroupKind.RECURRENT_STATE else 0,
        window_tokens=window_tokens if kind in WINDOWED else 0,
    )


def stock_manager(spec: GroupSpec) -> SingleTypeKVCacheManager:
    pool = BlockPool(num_gpu_blocks=200, enable_caching=True, hash_block_size=BLOCK)
    common = {
        "block_pool": pool,
        "enable_caching": True,
        "kv_cache_group_id": 0,
        "scheduler_block_size": BLOCK,
    }
    if spec.kind is GroupKind.RECURRENT_STATE:
        state = MambaSpec(
            block_size=BLOCK,
            shapes=((1,),),
            dtypes=(torch.float32,),
            mamba_cache_mode="align",
            num_speculative_blocks=spec.num_speculative_blocks,
        )
        return MambaManager(state, **common)
    attention = {
        "block_size": BLOCK,
        "num_kv_heads": 1,
        "head_size": 1,
        "dtype": torch.float32,
    }
    match spec.kind:
        case GroupKind.FULL_ATTENTION:
            return FullAttentionManager(FullAttentionSpec(**attention), **common)
        case GroupKind.SLIDING_WINDOW:
            window = SlidingWindowSpec(**attention, sliding_window=spec.window_tokens)
            return SlidingWindowManager(window, **common)
        case GroupKind.CHUNKED_LOCAL:
            chunks = ChunkedLocalAttentionSpec(**attention, attention_chunk_size=spec.window_tokens)
            return ChunkedLocalAttentionManager(chunks, **common)
        case GroupKind.CROSS_ATTENTION:
            return CrossAttentionManager(CrossAttentionSpec(**attention), **common)
    return CircularBufferManager(CircularBufferSpec(**attention), **common)


def our_table(
    spec: GroupSpec, hit_rows: int, encoder_tokens: int
) -> tuple[BlockTable, "itertools.count[int]"]:
    numbers = itertools.count(1)
    held = len(reference.positions_read(spec, hit_rows * BLOCK))
    hit = [BlockId(next(numbers)) for _ in range(held)]
    return make_table(spec, [hit], hit_rows * BLOCK, encoder_tokens), numbers


def adopt_hit(manager: SingleTypeKVCacheManager, spec: GroupSpec, hit_rows: int) -> None:
    """Give the stock manager a hit as its own lookup would return it."""
    if not spec.may_be_hit:
        return
    pool = manager.block_pool
    blocks = pool.get_new_blocks(hit_rows)
    if spec.kind is GroupKind.RECURRENT_STATE:
        blocks = [pool.null_block] * (hit_rows - 1) + blocks[-1:] if hit_rows else []
    manager.add_local_computed_blocks(REQUEST, blocks, hit_rows * BLOCK, 0)


CHUNKS = st.lists(st.integers(1, 3 * BLOCK), min_size=1, max_size=12)


@pytest.mark.parametrize("kind", GroupKind)
@given(data=st.data(), hit_rows=st.integers(0, 4), in_flight=st.booleans())
@settings(max_examples=200, deadline=None)
def test_every_position_is_held_exactly_where_stock_holds_it(
    kind: GroupKind, data: st.DataObject, hit_rows: int, in_flight: bool
) -> None:
    spec = group(kind, data.draw(st.integers(1, 5 * BLOCK)), data.draw(st.integers(0, 2)))
    encoder_tokens = data.draw(st.integers(1, 20))
    if kind is GroupKind.CROSS_ATTENTION:
        hit_rows = 0
    manager = stock_manager(spec)
    table, numbers = our_table(spec, hit_rows, encoder_tokens)
    adopt_hit(manager, spec, hit_rows)
    computed, last_chunk = hit_rows * BLOCK, 0
    for index, chunk in enumerate(data.draw(CHUNKS)):
        processed = max(0, computed - (last_chunk if in_flight else 0))
        if index:
            manager.remove_skipped_blocks(REQUEST, processed)
            may_go_on_to = table.most_processed()
            retired = table.retire(processed)
            assert may_go_on_to is None or bool(retired) <= (processed > may_go_on_to)
        target = computed + chunk
        slots = target + spec.num_speculative_blocks
        counted = encoder_tokens if kind is GroupKind.CROSS_ATTENTION else slots
        new = manager.allocate_new_blocks(REQUEST, counted, target)
        num_rows = table.num_new_rows(target, slots)
        table.grow(target, slots, [[BlockId(next(numbers)) for _ in range(num_rows)]])
        stock = [not block.is_null for block in manager.req_to_blocks[REQUEST]]
        ours = [block != NULL_BLOCK for block in table.columns[0]]
        assert ours == stock, f"after {target} tokens"
        assert len(new) >= num_rows
        assert table.most_slots() >= target
        computed, last_chunk = target, chunk
