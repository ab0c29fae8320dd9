"""The states a client runs its requests on.

A running state is written at every step and thrown away when its request has moved on. Asking for
each of them, and giving each of them back, would be most of the traffic; so a client leases a stock
of states and recycles its own. The pool hears of a leased state again when it becomes a checkpoint,
or when it is given back.
"""

from collections.abc import Sequence

from kvquarry_core.block_store import BlockStore
from kvquarry_core.errors import Reason, UsageError
from kvquarry_core.ids import BlockId, GroupId
from kvquarry_core.plan import Plan


class Lease:
    """The blocks one attachment has leased, by group. They count as granted."""

    def __init__(self, plan: Plan, store: BlockStore) -> None:
        self.blocks: list[set[BlockId]] = [set() for _ in plan.groups]
        self._plan = plan
        self._store = store

    def add(self, group: GroupId, blocks: Sequence[BlockId]) -> None:
        """Blocks were granted to the client as a whole."""
        self.blocks[group].update(blocks)

    def hand_over(self, group: GroupId, blocks: Sequence[BlockId]) -> None:
        """Leased blocks become a request's own."""
        self.blocks[group].difference_update(blocks)
        self._store.spend(self._plan.class_of_group[group], blocks)

    def check(self, group: GroupId, blocks: Sequence[BlockId]) -> None:
        """Raise unless all of these are leased, and each is named once."""
        if len(set(blocks)) != len(blocks) or not self.blocks[group].issuperset(blocks):
            raise UsageError(
                Reason.NOT_GRANTED, f"not all of {list(blocks)} are leased in group {group}"
            )

    def give_back(self, group: GroupId, blocks: Sequence[BlockId]) -> None:
        """The client needs these no longer.

        Raises:
            UsageError: One of them is not leased; then none is taken back.
        """
        self.check(group, blocks)
        self.blocks[group].difference_update(blocks)
        self._store.give_back(self._plan.class_of_group[group], blocks)
