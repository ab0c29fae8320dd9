"""What the scheduler reads of a manager's inner parts: constants, and where late frees go."""

from collections.abc import Iterable
from dataclasses import dataclass

from vllm.v1.kv_cache_interface import KVCacheSpec

from kvquarry_client.shadow import Shadow
from kvquarry_vllm.blocks import DetachedBlocks
from kvquarry_vllm.config import MixedKVCacheConfig


@dataclass(frozen=True, slots=True)
class GroupConstants:
    """What the scheduler reads of a group's manager."""

    block_size: int
    kv_cache_spec: KVCacheSpec


class Constants:
    """What the scheduler reads of the coordinator."""

    enable_partial_hash_hits = False

    def __init__(self, kv_cache_config: MixedKVCacheConfig) -> None:
        self.single_type_managers = tuple(
            GroupConstants(group.kv_cache_spec.block_size, group.kv_cache_spec)
            for group in kv_cache_config.kv_cache_groups
        )


class DetachedPool:
    """What the scheduler gives detached blocks back to."""

    def __init__(self, shadow: Shadow) -> None:
        self._shadow = shadow

    def free_blocks(self, ordered_blocks: Iterable[DetachedBlocks]) -> None:
        """The step that could still write these blocks has completed."""
        for blocks in ordered_blocks:
            self._shadow.free_handle(blocks.handle)
