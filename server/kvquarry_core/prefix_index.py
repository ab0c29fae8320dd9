"""(kind, block hash) to the blocks that hold that content.

Groups of one kind commit together, so an entry names one block per member group: its *row*.
Two requests may compute the same block at the same time; both are kept, the older is found.
"""

from dataclasses import dataclass

from kvquarry_core.ids import BlockHash, BlockId, KindId

#: One block per member group of a kind, in the kind's group order.
Row = tuple[BlockId, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Commitment:
    """A findable row: what its blocks hold. Shared by all blocks of the row."""

    kind: KindId
    block_hash: BlockHash
    row: Row


class PrefixIndex:
    """What content is where, for every kind of one pool."""

    def __init__(self, num_kinds: int) -> None:
        self._found: list[dict[BlockHash, Commitment]] = [{} for _ in range(num_kinds)]
        # A second row for one hash is rare: kept aside, so that an entry costs one reference.
        self._twins: dict[tuple[KindId, BlockHash], list[Commitment]] = {}

    def find(self, kind: KindId, block_hash: BlockHash) -> Commitment | None:
        """The oldest row that holds the content, or None."""
        return self._found[kind].get(block_hash)

    def insert(self, commitment: Commitment) -> None:
        """Make a row findable; one that was there before stays the one found."""
        first = self._found[commitment.kind].setdefault(commitment.block_hash, commitment)
        if first is not commitment:
            key = (commitment.kind, commitment.block_hash)
            self._twins.setdefault(key, []).append(commitment)

    def remove(self, commitment: Commitment) -> None:
        """Forget one row; an equal one that was kept aside takes its place."""
        key = (commitment.kind, commitment.block_hash)
        found, twins = self._found[commitment.kind], self._twins.get(key)
        if found[commitment.block_hash] is not commitment:
            assert twins is not None, f"{commitment} is not indexed"
            twins.remove(commitment)
        elif twins:
            found[commitment.block_hash] = twins.pop(0)
        else:
            del found[commitment.block_hash]
        if twins is not None and not twins:
            del self._twins[key]

    def commitments(self, kind: KindId) -> list[Commitment]:
        """Every entry of a kind, for audits."""
        found = list(self._found[kind].values())
        return found + [one for (k, _), twins in self._twins.items() if k == kind for one in twins]
