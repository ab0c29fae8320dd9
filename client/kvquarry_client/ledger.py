"""What the shadow keeps its books with: a pool somewhere, reached in order."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from kvquarry_core.ids import BlockHash, BlockId, GroupId, Handle, KindId
from kvquarry_core.luxury import FreeMemory
from kvquarry_core.messages import Answer, Ask, FullRows


@dataclass(frozen=True, slots=True)
class Eviction:
    """Content that can no longer be found."""

    kind: KindId
    block_hash: BlockHash


class Ledger(Protocol):
    """An attachment's operations on its pool, in the order in which they are called.

    ``ask`` and ``reset_cache`` wait for the pool's answer; one call is one exchange. All others
    return at once and reach the pool in order, at the latest with the next exchange,
    :meth:`flush`, or some steps later. See :class:`kvquarry_core.pool.Pool` for what each does.
    """

    #: Times the ledger waited for an answer.
    num_exchanges: int

    def ask(self, asks: Sequence[Ask]) -> list[Answer]:
        """Everything that has to be answered, in one exchange."""
        ...

    def ask_first(self, asks: Sequence[Ask]) -> list[Answer]:
        """The same for when memory is plenty: ahead of what was called before, as far as may be.

        What an answer depends on comes before it, see :mod:`kvquarry_client.wire.bearing`. To
        commit a prompt, or to free a request, takes the pool about as long as to admit one.
        """
        ...

    def reset_cache(self) -> bool:
        """Forget all cached content; False while requests use blocks."""
        ...

    def unpin(self, pin_id: str) -> None:
        """End a pin before its time."""
        ...

    def take(self, handle: Handle, group: GroupId, num_blocks: int) -> None:
        """Spend granted blocks in the order granted."""
        ...

    def settle(self, handle: Handle) -> None:
        """Give back what a request was granted and did not spend."""
        ...

    def give_back(self, group: GroupId, blocks: Sequence[BlockId]) -> None:
        """Return leased blocks."""
        ...

    def commit(self, rows: FullRows) -> None:
        """Make full rows findable."""
        ...

    def drop(self, handle: Handle, group: GroupId, blocks: Sequence[BlockId]) -> None:
        """Give up some of a request's blocks."""
        ...

    def free(self, handle: Handle) -> None:
        """Give up everything a request holds."""
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

    def end_step(self) -> None:
        """The same, unless it is so little that it may wait for that of the next steps."""
        ...

    def tell_empty_slots(self, count: Callable[[], Sequence[int]]) -> None:
        """From now on the pool hears this count with whatever is sent; by kind.

        See :mod:`kvquarry_core.slot_use`.
        """
        ...

    def compare_books(self, digest: bytes) -> None:
        """Debugging: have the client's books compared with the pool's.

        See :mod:`kvquarry_core.books`. Where they differ the call raises, or the next one that
        waits for an answer: an error with the reason ``BOOKS_DIFFER``.
        """
        ...

    def free_memory(self) -> FreeMemory:
        """As much memory as is free at least: what was heard last, and nothing was asked since."""
        ...

    def used_fraction(self) -> float:
        """Share of the pool's bytes in use, as last heard."""
        ...

    def take_evictions(self) -> list[Eviction]:
        """What became unfindable since the last call; nothing where the pool tells nobody."""
        ...

    def close(self) -> None:
        """Give the pool up."""
        ...
