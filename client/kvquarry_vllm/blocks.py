"""Block ids in the shapes that vLLM's scheduler passes around."""

from collections.abc import Sequence

from vllm.v1.core.kv_cache_manager import KVCacheBlocks
from vllm.v1.core.kv_cache_utils import KVCacheBlock

from kvquarry_core.ids import NULL_BLOCK, BlockId, Handle


class BlockIds(KVCacheBlocks):
    """A :class:`KVCacheBlocks` made of ids; block objects are only built for who asks for them.

    Attributes:
        ids: Block ids by KV cache group, null blocks included. Ids of different groups may mean
            different bytes: blocks have several sizes.
    """

    def __init__(self, ids: Sequence[Sequence[BlockId]]) -> None:
        self.ids = tuple(ids)

    @property
    def blocks(self) -> tuple[list[KVCacheBlock], ...]:  # type: ignore[override]
        """As block objects."""
        return tuple(
            [KVCacheBlock(block, is_null=block == NULL_BLOCK) for block in group]
            for group in self.ids
        )

    def get_block_ids(
        self, allow_none: bool = False, *, group_ids: Sequence[int] | None = None
    ) -> tuple[list[int], ...] | None:
        """See :meth:`KVCacheBlocks.get_block_ids`."""
        groups = self.ids if group_ids is None else [self.ids[index] for index in group_ids]
        if allow_none and not any(groups):
            return None
        return tuple(list(group) for group in groups)

    def new_empty(self) -> "BlockIds":
        """See :meth:`KVCacheBlocks.new_empty`."""
        return BlockIds([[] for _ in self.ids])


class DetachedBlocks:
    """All blocks of a request that is over while a step in flight may still write them."""

    #: Looked at by vLLM's own pools only.
    is_null = False

    def __init__(self, handle: Handle) -> None:
        self.handle = handle
