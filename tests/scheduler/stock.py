"""Stock vLLM's manager as the pool under test: what everything else is compared with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from vllm.config import VllmConfig
from vllm.v1.core.kv_cache_manager import KVCacheBlocks, KVCacheManager
from vllm.v1.core.kv_cache_utils import BlockHashWithGroupId
from vllm.v1.core.sched.scheduler import Scheduler
from vllm.v1.core.single_type_kv_cache_manager import MambaManager

from tests.scheduler.geometry import Geometry, stock_config
from tests.scheduler.simulation import Pool


class EagerStock(KVCacheManager):
    """Stock vLLM without needless refusals: what to compare schedules with, step by step.

    Stock turns a request away when its hit ends in a state that was *named* in this step.
    ``MambaManager`` names the last boundary of a prompt again in every step until the request has
    passed another block, and names a state that another request has computed already; both hold
    finished content. Only states that this step writes are refused here.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._found_at_start: dict[BlockHashWithGroupId, int | None] = {}

    def new_step_starts(self) -> None:
        """See :class:`KVCacheManager`."""
        super().new_step_starts()
        names = self.block_pool.cached_block_hash_to_block._cache
        self._found_at_start = {name: self._find(name) for name in names}

    def allocate_slots(self, *args: Any, **kwargs: Any) -> KVCacheBlocks | None:
        """See :class:`KVCacheManager`."""
        for manager in self.coordinator.single_type_managers:
            if isinstance(manager, MambaManager):
                finished = {
                    name
                    for name in manager.cached_blocks_this_step
                    if self._find(name) == self._found_at_start.get(name)
                }
                manager.cached_blocks_this_step -= finished
        return super().allocate_slots(*args, **kwargs)

    def _find(self, name: BlockHashWithGroupId) -> int | None:
        block = self.block_pool.cached_block_hash_to_block.get_one_block(name)
        return None if block is None else block.block_id


@dataclass(frozen=True)
class StockPools:
    """Pools of stock vLLM.

    Attributes:
        num_blocks: Blocks of each pool, the null block included.
        manager_class: Stock vLLM's manager, or one with a fault.
    """

    geometry: Geometry
    num_blocks: int
    manager_class: type[KVCacheManager] = KVCacheManager

    @property
    def block_tokens(self) -> int:
        """See :class:`tests.scheduler.simulation.PoolFactory`."""
        return self.geometry.block_tokens

    def open(self, vllm_config: VllmConfig) -> Pool:
        """See :class:`tests.scheduler.simulation.PoolFactory`."""
        config = stock_config(self.geometry, self.num_blocks)
        return Pool("stock vLLM", config, self.manager_class, num_held, stock_leaks)


def num_held(scheduler: Scheduler) -> int:
    """Blocks that are not free, but for the null block."""
    pool = scheduler.kv_cache_manager.block_pool
    return pool.num_gpu_blocks - 1 - pool.get_num_free_blocks()


def stock_leaks(scheduler: Scheduler) -> list[str]:
    """Blocks that are in use, and requests that have bookkeeping, in an idle manager."""
    manager = scheduler.kv_cache_manager
    used = [
        f"block {block.block_id} has {block.ref_cnt} references"
        for block in manager.block_pool.blocks
        if block.ref_cnt and not block.is_null
    ]
    for single in manager.coordinator.single_type_managers:
        kept = single.req_to_blocks.keys() | single.num_cached_block.keys()
        used += [f"group {single.kv_cache_group_id} knows {request}" for request in sorted(kept)]
    if manager.usage:
        used.append(f"usage is {manager.usage}")
    if scheduler.deferred_frees:
        used.append(f"{len(scheduler.deferred_frees)} frees are deferred for ever")
    return used
