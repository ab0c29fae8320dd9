"""Managers that break one law each. An oracle that lets one of them pass proves nothing.

They are stock vLLM's manager with one fault planted: each is a way in which any manager of blocks
could go wrong.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from vllm.utils.hashing import sha256_cbor
from vllm.v1.core.kv_cache_manager import KVCacheBlocks, KVCacheManager
from vllm.v1.core.kv_cache_utils import KVCacheBlock
from vllm.v1.core.single_type_kv_cache_manager import MambaManager
from vllm.v1.request import Request


def forgetful_hash(value: Any) -> bytes:
    """Names content by the last bits of its digest: other content is soon found under it."""
    return sha256_cbor(value)[:1] * 32


class FreesTwice(KVCacheManager):
    """Gives a finished request's last block back twice, so two requests get it."""

    def free(self, request: Request) -> None:
        blocks = self.coordinator.get_blocks(request.request_id)[-1]
        last = blocks[-1] if blocks else None
        super().free(request)
        queue = self.block_pool.free_block_queue
        if last is not None and last.ref_cnt == 0:
            twin = KVCacheBlock(last.block_id)
            queue.append(twin)


class LeaksOnFree(KVCacheManager):
    """Keeps a reference to a request's first block when it ends."""

    def free(self, request: Request) -> None:
        blocks = self.coordinator.get_blocks(request.request_id)[-1]
        if blocks:
            blocks[0].ref_cnt += 1
        super().free(request)


class CommitsAhead(KVCacheManager):
    """Makes the next block of a prompt findable before the step that writes it is planned."""

    def allocate_slots(self, request: Request, *args: Any, **kwargs: Any) -> KVCacheBlocks | None:
        blocks = super().allocate_slots(request, *args, **kwargs)
        if blocks is not None:
            held = len(self.coordinator.get_blocks(request.request_id)[-1])
            block_size = self.coordinator.single_type_managers[-1].block_size
            self.coordinator.cache_blocks(
                request, min(held, len(request.block_hashes)) * block_size
            )
        return blocks


class HitsTooFar(KVCacheManager):
    """Says of a hit that it is one block longer, and brings a block of its own choice."""

    def get_computed_blocks(self, request: Request) -> tuple[KVCacheBlocks, int, int]:
        blocks, num_tokens, boundary = super().get_computed_blocks(request)
        block_size = self.coordinator.single_type_managers[-1].block_size
        longer = num_tokens + block_size
        if not num_tokens or longer >= request.num_tokens:
            return blocks, num_tokens, boundary
        any_block = self.block_pool.blocks
        more = tuple([*group, any_block[1 + i]] for i, group in enumerate(blocks.blocks))
        return KVCacheBlocks(more), longer, boundary


class HitsStatesAtOnce(KVCacheManager):
    """Lets states be hit in the very step that writes them."""

    def get_computed_blocks(self, request: Request) -> tuple[KVCacheBlocks, int, int]:
        for manager in self.coordinator.single_type_managers:
            manager.new_step_starts()
        return super().get_computed_blocks(request)


class RetiresStatesEarly(KVCacheManager):
    """Frees the state that a chunk starts from before the chunk has read it."""

    def allocate_slots(self, request: Request, *args: Any, **kwargs: Any) -> KVCacheBlocks | None:
        blocks = super().allocate_slots(request, *args, **kwargs)
        if blocks is None:
            return None
        for manager in self.coordinator.single_type_managers:
            if isinstance(manager, MambaManager):
                self._retire(manager, request.request_id)
        return blocks

    def _retire(self, manager: MambaManager, request_id: str) -> None:
        table = manager.req_to_blocks[request_id]
        for column, block in enumerate(table[:-1]):
            if not block.is_null:
                table[column] = self.block_pool.null_block
                self.block_pool.free_blocks([block])


class SkipsZeroing(KVCacheManager):
    """Forgets to say which attention blocks are new."""

    def take_new_block_ids(self) -> list[int]:
        super().take_new_block_ids()
        return []


class ZeroesTooMuch(KVCacheManager):
    """Has a block zeroed that is in use."""

    def take_new_block_ids(self) -> list[int]:
        new = super().take_new_block_ids()
        return [*new, *(block - 1 for block in new if block > 1)]


class ShiftsStates(KVCacheManager):
    """Tells the worker state blocks one too high, as an off-by-one in a view would."""

    def allocate_slots(self, request: Request, *args: Any, **kwargs: Any) -> KVCacheBlocks | None:
        blocks = super().allocate_slots(request, *args, **kwargs)
        return None if blocks is None else _shifted(blocks, self.coordinator.single_type_managers)

    def get_blocks(self, request_id: str) -> KVCacheBlocks:
        return _shifted(super().get_blocks(request_id), self.coordinator.single_type_managers)


class IgnoresDeferral(KVCacheManager):
    """Frees blocks at once that a step in flight may still write."""

    def pop_blocks_for_free(self, request: Request) -> list[KVCacheBlock]:
        self.free(request)
        return []


def _shifted(blocks: KVCacheBlocks, managers: Iterable[Any]) -> KVCacheBlocks:
    groups = tuple(
        [block if block.is_null else KVCacheBlock(block.block_id + 1) for block in group]
        if isinstance(manager, MambaManager)
        else group
        for group, manager in zip(blocks.blocks, managers, strict=True)
    )
    return KVCacheBlocks(groups)
