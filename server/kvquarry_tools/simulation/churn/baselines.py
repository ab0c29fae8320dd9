"""What the real core is measured against: pools that are sums, and a placement without thought."""

import random
from collections.abc import Sequence

from kvquarry_core.ids import ClassId, Handle, SlabId
from kvquarry_core.plan import GroupKind, GroupSpec
from kvquarry_core.slabs import SlabMap
from kvquarry_tools.simulation.churn.pools import need_of


class Oracle:
    """Any block anywhere, of any size: what is lost here is lost to the queue alone."""

    def __init__(self, groups: Sequence[GroupSpec], pool_bytes: int) -> None:
        self.need = need_of(groups)
        self.moved_bytes = 0
        self.block_tokens = _block_tokens(groups)
        self._free_bytes = pool_bytes
        self._held_bytes: dict[Handle, int] = {}

    def begin_step(self) -> None:
        """See :meth:`ChurnPool.begin_step`; nothing moves."""

    def admit(self, handle: Handle, num_tokens: int) -> bool:
        """See :meth:`ChurnPool.admit`."""
        num_blocks = -(-num_tokens // self.block_tokens)
        wanted = num_blocks * self._block_bytes + self.need.bytes_per_request
        if wanted > self._free_bytes:
            return False
        self._free_bytes -= wanted
        self._held_bytes[handle] = wanted
        return True

    def grow(self, handle: Handle) -> bool:
        """See :meth:`ChurnPool.grow`."""
        if self._block_bytes > self._free_bytes:
            return False
        self._free_bytes -= self._block_bytes
        self._held_bytes[handle] += self._block_bytes
        return True

    def free(self, handle: Handle) -> None:
        """See :meth:`ChurnPool.free`."""
        self._free_bytes += self._held_bytes.pop(handle)

    @property
    def _block_bytes(self) -> int:
        return self.need.bytes_per_token * self.block_tokens


class StaticSplit:
    """Two pools that never lend to each other, one for tokens and one for states."""

    def __init__(self, groups: Sequence[GroupSpec], pool_bytes: int, token_share: float) -> None:
        self.need = need_of(groups)
        self.moved_bytes = 0
        self.block_tokens = _block_tokens(groups)
        token_bytes = int(pool_bytes * token_share)
        self._free_blocks = token_bytes // (self.need.bytes_per_token * self.block_tokens)
        self._free_states = (pool_bytes - token_bytes) // self.need.bytes_per_request
        self._held_blocks: dict[Handle, int] = {}

    def begin_step(self) -> None:
        """See :meth:`ChurnPool.begin_step`; nothing moves."""

    def admit(self, handle: Handle, num_tokens: int) -> bool:
        """See :meth:`ChurnPool.admit`."""
        num_blocks = -(-num_tokens // self.block_tokens)
        if not self._free_states or num_blocks > self._free_blocks:
            return False
        self._free_states -= 1
        self._free_blocks -= num_blocks
        self._held_blocks[handle] = num_blocks
        return True

    def grow(self, handle: Handle) -> bool:
        """See :meth:`ChurnPool.grow`."""
        if not self._free_blocks:
            return False
        self._free_blocks -= 1
        self._held_blocks[handle] += 1
        return True

    def free(self, handle: Handle) -> None:
        """See :meth:`ChurnPool.free`."""
        self._free_states += 1
        self._free_blocks += self._held_blocks.pop(handle)


class RandomSlab:
    """Any partly used slab of the class: what placement is worth at all."""

    def __init__(self, seed: int) -> None:
        self._source = random.Random(seed)

    def choose(self, slabs: SlabMap, size_class: ClassId, near: SlabId | None) -> SlabId | None:
        """See :meth:`Placement.choose`."""
        partial = slabs.partial(size_class)
        return self._source.choice(list(partial)) if partial else None


def _block_tokens(groups: Sequence[GroupSpec]) -> int:
    return min(group.block_tokens for group in groups if group.kind is GroupKind.FULL_ATTENTION)
