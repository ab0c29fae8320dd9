"""Who wants to know what a pool does; a null object where nobody does."""

from itertools import repeat
from typing import Protocol

from kvquarry_core.ids import BlockHash, KindId
from kvquarry_core.prefix_index import PrefixIndex, Rows


class PoolObserver(Protocol):
    """Told of what a client cannot see from its own operations."""

    def forgotten(self, rows: Rows) -> None:
        """Rows lost their hashes: they were evicted, reset or made invalid."""
        ...


class EvictionLog:
    """Collects what a pool forgets until somebody asks what can no longer be found."""

    def __init__(self) -> None:
        self._forgotten: list[tuple[KindId, BlockHash]] = []

    def forgotten(self, rows: Rows) -> None:
        """See :meth:`PoolObserver.forgotten`."""
        self._forgotten += zip(repeat(rows.kind), rows.hashes)

    def __len__(self) -> int:
        return len(self._forgotten)

    def drain(self, index: PrefixIndex, most: int | None = None) -> list[tuple[KindId, BlockHash]]:
        """What was forgotten since the last call and has no twin that is still found, in order.

        Of more than ``most`` only the oldest; the rest waits for the next call.
        """
        most = len(self._forgotten) if most is None else most
        forgotten, self._forgotten = self._forgotten[:most], self._forgotten[most:]
        return [(kind, name) for kind, name in forgotten if index.find(kind, name) is None]


class UnheardLog(EvictionLog):
    """Stays empty: nobody will ask."""

    def forgotten(self, rows: Rows) -> None:
        """See :meth:`PoolObserver.forgotten`."""


NULL_OBSERVER: PoolObserver = UnheardLog()
