"""What every block table answers, and the columns of rows they are kept in.

A table is kept for each kind, with one column per member group: all members grow, retire and
commit at the same positions. A *row* is one position across the columns.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from kvquarry_core.ids import NULL_BLOCK, BlockId
from kvquarry_core.prefix_index import Row

#: More tokens than anybody computes.
ANY_NUMBER = 1 << 62
#: New rows, as one column per member group.
Columns = Sequence[Sequence[BlockId]]


@dataclass(frozen=True, slots=True)
class Retired:
    """Rows that left a table.

    Attributes:
        held: Those that the pool counts as the request's: it must be told.
        leased: Those of the engine's stock, which another request may go on with.
    """

    held: tuple[Row, ...] = ()
    leased: tuple[Row, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.held or self.leased)


NOTHING_RETIRED = Retired()


class BlockTable(Protocol):
    """One request's table for one kind."""

    columns: list[list[BlockId]]
    #: Leading positions that are committed or need not be.
    num_settled: int
    #: Whether granted rows are needed for as long as the request gets longer.
    grows: bool

    def num_new_rows(self, num_tokens: int, num_slots: int) -> int:
        """Blocks needed in each column before ``num_tokens`` can be computed.

        Args:
            num_tokens: Tokens of the main model, computed ones included.
            num_slots: The same plus the draft tokens' slots.
        """
        ...

    def grow(self, num_tokens: int, num_slots: int, columns: Columns) -> None:
        """Append the rows that :meth:`num_new_rows` asked for."""
        ...

    def retire(self, num_processed: int) -> Retired:
        """Null and return the rows nobody reads once ``num_processed`` tokens were processed."""
        ...

    def note_committed(self, positions: Iterable[int]) -> None:
        """Rows can be found by their hashes from now on: they are no longer the request's alone."""
        ...

    def private_rows(self) -> list[Row]:
        """Rows that were never committed: nobody but this request has them."""
        ...

    def most_slots(self) -> int:
        """As many slots there are before :meth:`num_new_rows` asks for more."""
        ...

    def most_processed(self) -> int | None:
        """As many tokens may be processed before :meth:`retire` has work; None for any number."""
        ...


class ColumnTable:
    """The rows of a table, column by column: vLLM is told columns."""

    def __init__(self, columns: Sequence[Sequence[BlockId]]) -> None:
        self.columns = [list(column) for column in columns]
        self.num_settled = len(self.columns[0])

    def __len__(self) -> int:
        return len(self.columns[0])

    def note_committed(self, positions: Iterable[int]) -> None:
        """See :meth:`BlockTable.note_committed`; the pool knows whose each row is."""

    def private_rows(self) -> list[Row]:
        """See :meth:`BlockTable.private_rows`; what was granted to a request is freed with it."""
        return []

    def row(self, position: int) -> Row | None:
        """The blocks at a position, or None where it was skipped or retired."""
        if self.columns[0][position] == NULL_BLOCK:
            return None
        return tuple(column[position] for column in self.columns)

    def blocks_at(self, positions: Sequence[int]) -> list[BlockId]:
        """The rows at some positions, one after another."""
        if len(self.columns) == 1 and isinstance(positions, range):
            return self.columns[0][positions.start : positions.stop : positions.step]
        return [column[position] for position in positions for column in self.columns]

    def extend(self, columns: Columns) -> None:
        """Append rows."""
        for column, blocks in zip(self.columns, columns, strict=True):
            column.extend(blocks)

    def append_nulls(self, num_rows: int) -> None:
        """Append positions without blocks."""
        for column in self.columns if num_rows else ():
            column.extend([NULL_BLOCK] * num_rows)

    def remove(self, position: int) -> Row | None:
        """Put the null block in the place of a row."""
        row = self.row(position)
        for column in self.columns:
            column[position] = NULL_BLOCK
        return row
