"""Yes, or no with the numbers: the one place that says whether blocks can be had.

Whoever is let through is served: the :class:`~kvquarry_core.allocator.Allocator` delivers what was
said to fit here.
"""

from collections.abc import Sequence

from kvquarry_core.block_store import BlockStore
from kvquarry_core.coordinator import NOTHING_HIT, Hit
from kvquarry_core.evacuation import NO_EVACUATION, Evacuation, Evacuator
from kvquarry_core.messages import Refusal, RefusalCause
from kvquarry_core.touched import Touched


class Gate:
    """Answers demands by what is there, what can be evicted and what can be moved.

    ``touched`` are blocks, by class, that will be referenced first, so that neither they nor their
    slabs can be evicted for the demand; by default there are none.
    """

    def __init__(self, store: BlockStore, evacuator: Evacuator) -> None:
        self._store = store
        self._evacuator = evacuator

    def fits(self, demand: Sequence[int], touched: Touched | None = None) -> bool:
        """Whether ``demand[c]`` blocks of every class ``c`` can be had at once, moving nothing."""
        if touched is None:
            return self._store.room().num_spare_slabs(demand) >= 0
        # Mostly there is plenty, and nobody need look at each touched block.
        return (
            self._store.room_at_worst(touched.num_blocks).num_spare_slabs(demand) >= 0
            or self._store.room(touched).num_spare_slabs(demand) >= 0
        )

    def way(self, demand: Sequence[int], touched: Touched | None = None) -> Evacuation | None:
        """What to clear so that a demand fits, mostly nothing; None where there is no way."""
        if self.fits(demand, touched):
            return NO_EVACUATION
        return self._evacuator.plan(demand, touched or ()) or None

    def admits_luxury(self, demand: Sequence[int], owed: Sequence[int]) -> bool:
        """Whether so many blocks may go to somebody who does not need them yet.

        ``owed`` are those that others were promised. See :mod:`kvquarry_core.luxury`.
        """
        store, memory = self._store, self._store.free_memory()
        promised = [blocks + later for blocks, later in zip(demand, owed, strict=True)]
        if memory.leaves_reserve(store.plan, promised):
            return True
        columns = zip(demand, store.num_granted, memory.most_idle(store.plan, owed), strict=True)
        is_modest = all(not more or idle + more <= most for more, idle, most in columns)
        return is_modest and self.fits(promised)

    def shortage(self, demand: Sequence[int], hit: Hit = NOTHING_HIT) -> Refusal:
        """The refusal for a demand that does not fit now, though an empty pool would hold it."""
        return self._refusal(RefusalCause.SHORTAGE, demand, hit)

    def never(self, demand: Sequence[int], hit: Hit = NOTHING_HIT) -> Refusal:
        """The refusal for a demand that not even an empty pool would hold."""
        return self._refusal(RefusalCause.NEVER_FITS, demand, hit)

    def _refusal(self, cause: RefusalCause, demand: Sequence[int], hit: Hit) -> Refusal:
        available = tuple(self._store.num_available())
        return Refusal(cause, hit.num_tokens, hit.longest_tokens, tuple(demand), available)
