"""Our block tables hold blocks at exactly the positions where vLLM's own managers hold them."""

import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from vllm.v1.core.block_pool import BlockPool
from vllm.v1.core.single_type_kv_cache_manager import (
    FullAttentionManager,
    MambaManager,
    SingleTypeKVCacheManager,
)
from vllm.v1.kv_cache_interface import FullAttentionSpec, MambaSpec

from kvquarry_client.tables import AttentionTable, StateTable, make_table
from kvquarry_core.ids import NULL_BLOCK, BlockId
from kvquarry_core.plan import GroupKind, GroupSpec

BLOCK = 4
REQUEST = "r"


def stock_manager(kind: GroupKind, num_speculative: int) -> SingleTypeKVCacheManager:
    pool = BlockPool(num_gpu_blocks=10_000, enable_caching=True, hash_block_size=BLOCK)
    common = {
        "block_pool": pool,
        "enable_caching": True,
        "kv_cache_group_id": 0,
        "scheduler_block_size": BLOCK,
    }
    if kind is GroupKind.FULL_ATTENTION:
        spec = FullAttentionSpec(block_size=BLOCK, num_kv_heads=1, head_size=1, dtype=torch.float32)
        return FullAttentionManager(spec, **common)
    state = MambaSpec(
        block_size=BLOCK,
        shapes=((1,),),
        dtypes=(torch.float32,),
        mamba_cache_mode="align",
        num_speculative_blocks=num_speculative,
    )
    return MambaManager(state, **common)


def our_table(
    kind: GroupKind, num_speculative: int, hit_rows: int
) -> tuple[AttentionTable | StateTable, "itertools.count[int]"]:
    spec = GroupSpec(kind, BLOCK, 16, 1, num_speculative)
    numbers = itertools.count(1)
    held = hit_rows if kind is GroupKind.FULL_ATTENTION else min(hit_rows, 1)
    hit = [BlockId(next(numbers)) for _ in range(held)]
    return make_table(spec, [hit], hit_rows * BLOCK), numbers


def adopt_hit(manager: SingleTypeKVCacheManager, kind: GroupKind, hit_rows: int) -> None:
    """Give the stock manager a hit as its own lookup would return it."""
    pool = manager.block_pool
    blocks = pool.get_new_blocks(hit_rows)
    if kind is GroupKind.RECURRENT_STATE:
        blocks = [pool.null_block] * (hit_rows - 1) + blocks[-1:] if hit_rows else []
    manager.add_local_computed_blocks(REQUEST, blocks, hit_rows * BLOCK, 0)


def chunk_lengths(kind: GroupKind) -> st.SearchStrategy[list[int]]:
    return st.lists(st.integers(1, 3 * BLOCK), min_size=1, max_size=12)


@pytest.mark.parametrize("kind", GroupKind)
@given(data=st.data(), hit_rows=st.integers(0, 4), in_flight=st.booleans())
@settings(max_examples=300, deadline=None)
def test_every_position_is_held_exactly_where_stock_holds_it(
    kind: GroupKind, data: st.DataObject, hit_rows: int, in_flight: bool
) -> None:
    num_speculative = data.draw(st.integers(0, 2)) if kind is GroupKind.RECURRENT_STATE else 0
    manager = stock_manager(kind, num_speculative)
    table, numbers = our_table(kind, num_speculative, hit_rows)
    adopt_hit(manager, kind, hit_rows)
    computed, last_chunk = hit_rows * BLOCK, 0
    for index, chunk in enumerate(data.draw(chunk_lengths(kind))):
        processed = computed - (last_chunk if in_flight else 0)
        if index:
            manager.remove_skipped_blocks(REQUEST, max(0, processed))
            table.retire(max(0, processed))
        target = computed + chunk
        slots = target + num_speculative
        new = manager.allocate_new_blocks(REQUEST, slots, target)
        num_rows = table.num_new_rows(target, slots)
        table.grow(target, slots, [(BlockId(next(numbers)),) for _ in range(num_rows)])
        stock = [not block.is_null for block in manager.req_to_blocks[REQUEST]]
        ours = [block != NULL_BLOCK for block in table.columns[0]]
        assert ours == stock, f"after {target} tokens"
        assert len(new) >= num_rows
        computed, last_chunk = target, chunk
