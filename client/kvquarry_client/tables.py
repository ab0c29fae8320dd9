"""Block tables: which of a request's blocks stands at which position.

A table is kept for each kind, with one column per member group: all members grow, retire and
commit at the same positions. A *row* is one position across the columns.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from kvquarry_core.ids import NULL_BLOCK, BlockId
from kvquarry_core.plan import GroupKind, GroupSpec
from kvquarry_core.prefix_index import Row


@dataclass(frozen=True, slots=True)
class Retired:
    """Rows that left a table.

    Attributes:
        committed: Those that can be found by their hash.
        private: Those that were the request's alone.
    """

    committed: tuple[Row, ...] = ()
    private: tuple[Row, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.committed or self.private)


NOTHING_RETIRED = Retired()


class BlockTable(Protocol):
    """One request's table for one kind."""

    columns: list[list[BlockId]]
    #: Leading positions that are committed or need not be.
    num_settled: int

    def num_new_rows(self, num_tokens: int, num_slots: int) -> int:
        """Blocks needed in each column before ``num_tokens`` can be computed.

        Args:
            num_tokens: Tokens of the main model, computed ones included.
            num_slots: The same plus the draft tokens' slots.
        """
        ...

    def grow(self, num_tokens: int, num_slots: int, rows: Sequence[Row]) -> None:
        """Append the rows that :meth:`num_new_rows` asked for."""
        ...

    def retire(self, num_processed: int) -> Retired:
        """Null and return the rows nobody reads once ``num_processed`` tokens were processed."""
        ...

    def note_committed(self, position: int) -> None:
        """A row can be found by its hash from now on: it is no longer the request's alone."""
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


class _Columns:
    """The rows of a table, column by column: vLLM is told columns."""

    def __init__(self, columns: Sequence[Sequence[BlockId]]) -> None:
        self.columns = [list(column) for column in columns]
        self.num_settled = len(self.columns[0])

    def __len__(self) -> int:
        return len(self.columns[0])

    def row(self, position: int) -> Row | None:
        """The blocks at a position, or None where it was skipped or retired."""
        if self.columns[0][position] == NULL_BLOCK:
            return None
        return tuple(column[position] for column in self.columns)

    def _append(self, row: Row) -> None:
        for column, block in zip(self.columns, row, strict=True):
            column.append(block)

    def _append_nulls(self, num_rows: int) -> None:
        for column in self.columns:
            column.extend([NULL_BLOCK] * num_rows)

    def _remove(self, position: int) -> Row | None:
        """Put the null block in the place of a row."""
        row = self.row(position)
        for column in self.columns:
            column[position] = NULL_BLOCK
        return row


class AttentionTable(_Columns):
    """Full attention: position ``i`` holds tokens ``[i * block, (i + 1) * block)``, for good."""

    def __init__(self, spec: GroupSpec, hit_blocks: Sequence[Sequence[BlockId]]) -> None:
        super().__init__(hit_blocks)
        self._block_tokens = spec.block_tokens

    def num_new_rows(self, num_tokens: int, num_slots: int) -> int:
        """See :meth:`BlockTable.num_new_rows`."""
        return max(-(-num_slots // self._block_tokens) - len(self.columns[0]), 0)

    def grow(self, num_tokens: int, num_slots: int, rows: Sequence[Row]) -> None:
        """See :meth:`BlockTable.grow`."""
        for row in rows:
            self._append(row)

    def retire(self, num_processed: int) -> Retired:
        """Attention reads every earlier block: none is ever retired."""
        return NOTHING_RETIRED

    def note_committed(self, position: int) -> None:
        """See :meth:`BlockTable.note_committed`; attention rows are held until the end anyway."""

    def private_rows(self) -> list[Row]:
        """See :meth:`BlockTable.private_rows`; the pool knows every attention block's request."""
        return []

    def most_slots(self) -> int:
        """See :meth:`BlockTable.most_slots`."""
        return len(self.columns[0]) * self._block_tokens

    def most_processed(self) -> int | None:
        """See :meth:`BlockTable.most_processed`."""
        return None


class StateTable(_Columns):
    """Recurrent states in align mode: position ``i`` holds the state after ``(i + 1) * block``.

    The last ``1 + num_speculative`` positions are the running state and one for every draft
    token. A chunk reads the state that ran before it and writes the one at its end; positions
    between them stay null. Before::

        null  null  hit                                block size 64, hit 192
        null  null  hit  null  null  run               after a chunk to token 384
        null  null  null null  null  run  run'         in the step that passes 384

    The state a chunk started from is retired when the step that read it was processed.
    Source: the behaviour of vLLM's ``MambaManager`` with ``mamba_cache_mode=align``.
    """

    def __init__(
        self, spec: GroupSpec, hit_blocks: Sequence[Sequence[BlockId]], hit_rows: int
    ) -> None:
        nulls = [NULL_BLOCK] * (hit_rows - len(hit_blocks[0]))
        super().__init__([[*nulls, *column] for column in hit_blocks])
        self._block_tokens = spec.block_tokens
        self._num_speculative = spec.num_speculative_blocks
        self._is_running = False
        self._source: int | None = None
        self._num_retired = 0
        self._committed = {hit_rows - 1} if hit_rows else set()

    def num_new_rows(self, num_tokens: int, num_slots: int) -> int:
        """See :meth:`BlockTable.num_new_rows`; draft tokens have states of their own."""
        num_rows = self._num_rows_at(num_tokens)
        length = len(self)
        if num_rows <= length:
            return 0
        return num_rows - length - self._num_nulls(num_rows) - self._num_moved(num_rows)

    def grow(self, num_tokens: int, num_slots: int, rows: Sequence[Row]) -> None:
        """See :meth:`BlockTable.grow`."""
        num_rows, length = self._num_rows_at(num_tokens), len(self)
        if num_rows > length:
            num_nulls, num_moved = self._num_nulls(num_rows), self._num_moved(num_rows)
            if self._is_running:
                self._source = length - 1 - self._num_speculative
            elif length:
                self._source = length - 1
            self._append_nulls(num_nulls)
            self._move_speculative(length - self._num_speculative, num_moved)
            for row in rows:
                self._append(row)
        self._is_running = True

    def retire(self, num_processed: int) -> Retired:
        """See :meth:`BlockTable.retire`."""
        end = min((num_processed - 1) // self._block_tokens, len(self))
        positions = list(range(end - 1, self._num_retired - 1, -1))
        self._num_retired = max(self._num_retired, end)
        last = -(-num_processed // self._block_tokens) - 1
        if self._source is not None and self._source < last:
            positions.append(self._source)
            self._source = None
        return self._retire(positions)

    def note_committed(self, position: int) -> None:
        """See :meth:`BlockTable.note_committed`."""
        self._committed.add(position)

    def private_rows(self) -> list[Row]:
        """See :meth:`BlockTable.private_rows`."""
        found = (
            self.row(p) for p in range(self._num_retired, len(self)) if p not in self._committed
        )
        return [row for row in found if row is not None]

    def most_slots(self) -> int:
        """See :meth:`BlockTable.most_slots`."""
        return (len(self) - self._num_speculative) * self._block_tokens if self._is_running else 0

    def most_processed(self) -> int | None:
        """See :meth:`BlockTable.most_processed`."""
        last = self._num_retired if self._source is None else min(self._num_retired, self._source)
        return (last + 1) * self._block_tokens

    def _retire(self, positions: Iterable[int]) -> Retired:
        committed: list[Row] = []
        private: list[Row] = []
        for position in positions:
            row = self._remove(position)
            if row is not None:
                (committed if position in self._committed else private).append(row)
        return (
            Retired(tuple(committed), tuple(private)) if committed or private else NOTHING_RETIRED
        )

    def _num_rows_at(self, num_tokens: int) -> int:
        return -(-num_tokens // self._block_tokens) + self._num_speculative

    def _num_nulls(self, num_rows: int) -> int:
        """Positions the chunk passes without leaving a state."""
        return max(num_rows - self._num_speculative - 1 - len(self), 0)

    def _num_moved(self, num_rows: int) -> int:
        """Draft tokens' states that the chunk leaves behind: they are used again at its end."""
        if not self._is_running:
            return 0
        running = num_rows - self._num_speculative - 1
        return max(min(len(self), running) - (len(self) - self._num_speculative), 0)

    def _move_speculative(self, first: int, num_rows: int) -> None:
        for position in range(first, first + num_rows):
            row = self._remove(position)
            assert row is not None, f"the draft state at position {position} is gone"
            self._append(row)


def make_table(
    spec: GroupSpec, hit_blocks: Sequence[Sequence[BlockId]], hit_tokens: int
) -> AttentionTable | StateTable:
    """A new request's table, with the blocks its hit touched in place."""
    if spec.kind is GroupKind.FULL_ATTENTION:
        return AttentionTable(spec, hit_blocks)
    return StateTable(spec, hit_blocks, hit_tokens // spec.block_tokens)
