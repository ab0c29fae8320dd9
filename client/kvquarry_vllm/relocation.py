"""Moves a running engine's blocks in a worker, before anything else of a step.

The pool's owner exchanged the ids already. Here the bytes follow, and the model runner's own copies
of the block tables. vLLM's way to give a running request other blocks is to resume it, which a step
in flight does not survive.
"""

from typing import Any

from kvquarry_client.renames import Renames
from kvquarry_core.ids import GroupId
from kvquarry_vllm.config import MixedKVCacheConfig
from kvquarry_vllm.zeroing import ClassZeroer, MemoryOrders


def move_blocks(runner: Any, scheduler_output: Any) -> None:
    """Carry out a step's moves: copies first, then the block tables of whoever has these blocks.

    Args:
        runner: vLLM's ``GPUModelRunner``, or the CPU's.
        scheduler_output: The step; its new block ids are the new ones already.
    """
    orders = scheduler_output.new_block_ids_to_zero
    if not (isinstance(orders, MemoryOrders) and orders.moves):
        return
    config: MixedKVCacheConfig = runner.kv_cache_config
    memory: ClassZeroer = runner._kv_block_zeroer
    memory.move(orders.moves)
    renames = Renames(config.plan, orders.moves)
    for request_id, request in runner.requests.items():
        renamed = [
            renames.apply(GroupId(group), blocks) for group, blocks in enumerate(request.block_ids)
        ]
        row = runner.input_batch.req_id_to_index.get(request_id)
        if any(renamed) and row is not None:
            runner.input_batch.block_table.add_row(request.block_ids, row)
