"""What the real core is measured against: pools that are sums, and a placement without thought."""

import random
from collections.abc import Sequence
from dataclasses import dataclass

from kvquarry_core.ids import ClassId, Handle, SlabId
from kvquarry_core.plan import GroupKind, GroupSpec, Plan
from kvquarry_core.slabs import SlabMap
from kvquarry_tools.simulation.churn.pools import need_of


@dataclass(frozen=True, slots=True)
class Taken:
    """Bytes that a pool takes for what requests need.

    Attributes:
        bytes_per_block: One block of tokens in all layers.
        bytes_per_request: All states of a request.
    """

    bytes_per_block: int
    bytes_per_request: int


def taken_by_content(groups: Sequence[GroupSpec]) -> Taken:
    """What content takes that is never padded."""
    need = need_of(groups)
    return Taken(need.bytes_per_token * _block_tokens(groups), need.bytes_per_request)


def taken_by_blocks(plan: Plan) -> Taken:
    """What the blocks of a plan take: padding, and groups with fewer layers than the longest."""
    block_tokens, per_block, per_request = _block_tokens(plan.groups), 0, 0
    for group, size_class in zip(plan.groups, plan.class_of_group, strict=True):
        if group.kind is GroupKind.RECURRENT_STATE:
            per_request += plan.block_bytes(size_class)
        else:
            per_block += plan.block_bytes(size_class) * block_tokens // group.block_tokens
    return Taken(per_block, per_request)


class Oracle:
    """Any block anywhere, of any size: what is lost here is lost to the queue alone.

    With :func:`taken_by_blocks` to the blocks' sizes, too: no placement keeps a pool fuller.
    """

    def __init__(self, groups: Sequence[GroupSpec], taken: Taken, pool_bytes: int) -> None:
        self.need = need_of(groups)
        self.moved_bytes = 0
        self.block_tokens = _block_tokens(groups)
        self._taken = taken
        self._free_bytes = pool_bytes
        self._held_bytes: dict[Handle, int] = {}

    def begin_step(self) -> None:
        """See :meth:`ChurnPool.begin_step`; nothing moves."""

    def admit(self, handle: Handle, num_tokens: int) -> bool:
        """See :meth:`ChurnPool.admit`."""
        num_blocks = -(-num_tokens // self.block_tokens)
        wanted = num_blocks * self._taken.bytes_per_block + self._taken.bytes_per_request
        if wanted > self._free_bytes:
            return False
        self._free_bytes -= wanted
        self._held_bytes[handle] = wanted
        return True

    def grow(self, handle: Handle) -> bool:
        """See :meth:`ChurnPool.grow`."""
        if self._taken.bytes_per_block > self._free_bytes:
            return False
        self._free_bytes -= self._taken.bytes_per_block
        self._held_bytes[handle] += self._taken.bytes_per_block
        return True

    def free(self, handle: Handle) -> None:
        """See :meth:`ChurnPool.free`."""
        self._free_bytes += self._held_bytes.pop(handle)


class StaticSplit:
    """Two pools that never lend to each other, one for tokens and one for states."""

    def __init__(self, groups: Sequence[GroupSpec], pool_bytes: int, token_share: float) -> None:
        """``groups`` are of both."""
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
