"""Who wants to know what a pool does; a null object where nobody does."""

from typing import Protocol

from kvquarry_core.prefix_index import Commitment, PrefixIndex


class PoolObserver(Protocol):
    """Told of what a client cannot see from its own operations."""

    def forgotten(self, commitment: Commitment) -> None:
        """A row lost its hash: it was evicted, reset or made invalid."""
        ...


class EvictionLog:
    """Collects what a pool forgets until somebody asks what can no longer be found."""

    def __init__(self) -> None:
        self._forgotten: list[Commitment] = []

    def forgotten(self, commitment: Commitment) -> None:
        """See :meth:`PoolObserver.forgotten`."""
        self._forgotten.append(commitment)

    def __len__(self) -> int:
        return len(self._forgotten)

    def drain(self, index: PrefixIndex, most: int | None = None) -> list[Commitment]:
        """What was forgotten since the last call and has no twin that is still found, in order.

        Of more than ``most`` only the oldest; the rest waits for the next call.
        """
        most = len(self._forgotten) if most is None else most
        forgotten, self._forgotten = self._forgotten[:most], self._forgotten[most:]
        return [one for one in forgotten if index.find(one.kind, one.block_hash) is None]


class _Nobody:
    def forgotten(self, commitment: Commitment) -> None:
        pass


NULL_OBSERVER: PoolObserver = _Nobody()
