"""Who wants to know what a pool does; a null object where nobody does."""

from typing import Protocol

from kvquarry_core.prefix_index import Commitment


class PoolObserver(Protocol):
    """Told of what a client cannot see from its own operations."""

    def forgotten(self, commitment: Commitment) -> None:
        """The last row with this content lost its hash: evicted, reset or made invalid."""
        ...


class _Nobody:
    def forgotten(self, commitment: Commitment) -> None:
        pass


NULL_OBSERVER: PoolObserver = _Nobody()
