"""(kind, block hash) to the blocks that hold that content.

Groups of one kind commit together, so an entry names one block per member group: its *row*. An
entry is the row's first block, a mere int, since there may be a million of them; rows of more than
one block are kept beside. Two requests may compute the same block at the same time; both rows are
kept, the older is found.
"""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain

from kvquarry_core.errors import BrokenLaw
from kvquarry_core.ids import BlockHash, BlockId, KindId

#: One block per member group of a kind, in the kind's group order.
Row = tuple[BlockId, ...]


@dataclass(frozen=True, slots=True)
class Commitment:
    """A findable row: what its blocks hold. Made where somebody wants to see one."""

    kind: KindId
    block_hash: BlockHash
    row: Row


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of one kind.

    Attributes:
        kind: The kind.
        hashes: What each row holds.
        blocks: The rows one after another, each with one block per group of the kind.
    """

    kind: KindId
    hashes: Sequence[BlockHash]
    blocks: Sequence[BlockId]


class PrefixIndex:
    """What content is where, for every kind of one pool.

    No two rows of a kind have a block in common, so a row is named by its first block.
    """

    def __init__(self, num_kinds: int) -> None:
        self._found: list[dict[BlockHash, BlockId]] = [{} for _ in range(num_kinds)]
        # Rows of more than one block, by their first.
        self._rows: list[dict[BlockId, Row]] = [{} for _ in range(num_kinds)]
        # A second row for one hash is rare: kept aside, so that an entry costs one reference. An
        # ordered set: a popular prompt may have as many twins as there are requests.
        self._twins: list[dict[BlockHash, dict[BlockId, None]]] = [{} for _ in range(num_kinds)]

    def find(self, kind: KindId, block_hash: BlockHash) -> BlockId | None:
        """The first block of the oldest row that holds the content, or None."""
        return self._found[kind].get(block_hash)

    def find_leading(self, kind: KindId, hashes: Sequence[BlockHash]) -> list[BlockId]:
        """The same for each hash, up to the first one whose content is nowhere."""
        firsts: list[BlockId] = []
        with suppress(KeyError):
            # Ends where the first one is nowhere, and has all of those before it.
            firsts.extend(map(self._found[kind].__getitem__, hashes))
        return firsts

    def num_before_known(self, kinds: Sequence[KindId], hashes: Iterable[BlockHash | None]) -> int:
        """How many hashes come before the first one whose content all of ``kinds`` have."""
        first, *others = (self._found[kind] for kind in kinds)
        num_before = 0
        for block_hash in hashes:
            if block_hash in first and all(block_hash in found for found in others):
                break
            num_before += 1
        return num_before

    def row(self, kind: KindId, first: BlockId) -> Row:
        """The whole row that begins with a block."""
        return self._rows[kind].get(first) or (first,)

    def columns(self, kind: KindId, firsts: Sequence[BlockId]) -> Iterable[Sequence[BlockId]]:
        """Rows, named by their first blocks, as one column per group; none where there are none."""
        if not self._rows[kind]:
            return (firsts,) if firsts else ()
        return zip(*(self.row(kind, first) for first in firsts), strict=True)

    def row_with(self, kind: KindId, block_hash: BlockHash, block: BlockId) -> Row | None:
        """The row that holds some content and has a block among its own, or None."""
        first = self._found[kind].get(block_hash)
        if first is None:
            return None
        if not self._rows[kind]:
            is_there = block == first or block in self._twins[kind].get(block_hash, ())
            return (block,) if is_there else None
        for one in (first, *self._twins[kind].get(block_hash, ())):
            row = self.row(kind, one)
            if block in row:
                return row
        return None

    def insert(self, kind: KindId, hashes: Sequence[BlockHash], blocks: list[BlockId]) -> None:
        """Make rows findable; one that was there before stays the one found.

        Args:
            kind: Whose rows they are.
            hashes: One per row.
            blocks: The rows one after another.
        """
        found, firsts = self._found[kind], blocks
        if len(blocks) > len(hashes):
            width = len(blocks) // len(hashes)
            firsts = blocks[::width]
            for start, first in zip(range(0, len(blocks), width), firsts, strict=True):
                self._rows[kind][first] = tuple(blocks[start : start + width])
        # Mostly nobody has the content yet, and no row need be looked at by itself.
        there = list(map(found.setdefault, hashes, firsts))
        if there != firsts:
            for block_hash, first, one in zip(hashes, firsts, there, strict=True):
                if one != first:
                    self._twins[kind].setdefault(block_hash, {})[first] = None

    def remove(self, gone: Rows) -> None:
        """Forget rows; equal ones that were kept aside take their places."""
        kind, width = gone.kind, len(gone.blocks) // max(len(gone.hashes), 1)
        found, rows, twins = self._found[kind], self._rows[kind], self._twins[kind]
        for block_hash, first in zip(gone.hashes, gone.blocks[:: max(width, 1)], strict=True):
            if twins and block_hash in twins:
                self._remove_twin(kind, block_hash, first)
            elif found.pop(block_hash, None) != first:
                raise BrokenLaw(f"block {first} of kind {kind} is not indexed")
            if width > 1:
                del rows[first]
        if not found:
            # What was deleted still costs memory, and every search of what is inserted next.
            found.clear()
            rows.clear()

    def _remove_twin(self, kind: KindId, block_hash: BlockHash, first: BlockId) -> None:
        """Forget one of several rows of one hash."""
        found, twins = self._found[kind], self._twins[kind][block_hash]
        if found[block_hash] == first:
            found[block_hash] = first = next(iter(twins))
        elif first not in twins:
            raise BrokenLaw(f"block {first} of kind {kind} is not indexed")
        del twins[first]
        if not twins:
            del self._twins[kind][block_hash]

    def rename(self, commitment: Commitment, source: BlockId, target: BlockId) -> None:
        """A row's content is in another block now."""
        kind, row = commitment.kind, commitment.row
        renamed = tuple(target if block == source else block for block in row)
        if len(row) > 1:
            del self._rows[kind][row[0]]
            self._rows[kind][renamed[0]] = renamed
        if row[0] == renamed[0]:
            return
        if self._found[kind][commitment.block_hash] == row[0]:
            self._found[kind][commitment.block_hash] = renamed[0]
        else:
            twins = self._twins[kind][commitment.block_hash]
            # Their order is that of their age.
            renamed_twins = [renamed[0] if twin == row[0] else twin for twin in twins]
            self._twins[kind][commitment.block_hash] = dict.fromkeys(renamed_twins)

    def firsts(self, kind: KindId) -> list[BlockId]:
        """The first block of every row of a kind."""
        twins = chain.from_iterable(self._twins[kind].values())
        return [*self._found[kind].values(), *twins]

    def commitments(self, kind: KindId) -> list[Commitment]:
        """Every entry of a kind, for audits."""
        entries = list(self._found[kind].items())
        for block_hash, twins in self._twins[kind].items():
            entries += [(block_hash, first) for first in twins]
        return [
            Commitment(kind, block_hash, self.row(kind, first)) for block_hash, first in entries
        ]
