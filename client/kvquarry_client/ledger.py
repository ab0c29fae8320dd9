"""What the shadow keeps its books with: a pool somewhere, reached in order."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from kvquarry_core.ids import BlockHash, BlockId, GroupId, Handle, KindId
from kvquarry_core.messages import Admission, AdmitRequest, Grant, Refusal
from kvquarry_core.prefix_index import Row


@dataclass(frozen=True, slots=True)
class Eviction:
    """Content that can no longer be found."""

    kind: KindId
    block_hash: BlockHash


class Ledger(Protocol):
    """An attachment's operations on its pool, in the order in which they are called.

    ``admit``, ``grow`` and ``reset_cache`` wait for the pool's answer; one call is one exchange.
    All others return at once and reach the pool in order, at the latest with the next exchange
    or :meth:`flush`. See :class:`kvquarry_core.pool.Pool` for what each does.
    """

    #: Times the ledger waited for an answer.
    num_exchanges: int

    def admit(self, request: AdmitRequest) -> Admission | Refusal:
        """Touch the longest hit and grant blocks to go on from it, or change nothing."""
        ...

    def grow(self, handle: Handle, wanted: Sequence[int]) -> Grant | Refusal:
        """Grant more blocks, by group, or none."""
        ...

    def reset_cache(self) -> bool:
        """Forget all cached content; False while requests use blocks."""
        ...

    def take(self, handle: Handle, group: GroupId, num_blocks: int) -> None:
        """Spend granted blocks in the order granted."""
        ...

    def settle(self, handle: Handle) -> None:
        """Give back what was not spent."""
        ...

    def commit(self, handle: Handle, kind: KindId, block_hash: BlockHash, row: Row) -> None:
        """Make a full row findable."""
        ...

    def drop(self, handle: Handle, group: GroupId, block: BlockId) -> None:
        """Give up one block."""
        ...

    def free(self, handle: Handle) -> None:
        """Give up everything."""
        ...

    def begin_step(self) -> None:
        """States committed before may be hit."""
        ...

    def forget(self, group: GroupId, blocks: Sequence[BlockId]) -> None:
        """Make blocks unfindable."""
        ...

    def flush(self) -> None:
        """Send what is waiting, without waiting for an answer."""
        ...

    def used_fraction(self) -> float:
        """Share of the pool's bytes in use, as last heard."""
        ...

    def take_evictions(self) -> list[Eviction]:
        """What became unfindable since the last call."""
        ...

    def close(self) -> None:
        """Give the pool up."""
        ...
