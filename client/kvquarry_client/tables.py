"""Block tables: which of a request's blocks stands at which position.

A table is kept for each kind, with one column per member group: all members grow, retire and
commit at the same positions. A *row* is one position across the columns.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from kvquarry_core.group_rules import Window, window_of
from kvquarry_core.ids import NULL_BLOCK, BlockId
from kvquarry_core.plan import GroupKind, GroupSpec
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


class _Columns:
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

    def _extend(self, columns: Columns) -> None:
        for column, blocks in zip(self.columns, columns, strict=True):
            column.extend(blocks)

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

    grows = True

    def __init__(self, spec: GroupSpec, hit_blocks: Sequence[Sequence[BlockId]]) -> None:
        super().__init__(hit_blocks)
        self._block_tokens = spec.block_tokens

    def num_new_rows(self, num_tokens: int, num_slots: int) -> int:
        """See :meth:`BlockTable.num_new_rows`."""
        return max(-(-num_slots // self._block_tokens) - len(self.columns[0]), 0)

    def grow(self, num_tokens: int, num_slots: int, columns: Columns) -> None:
        """See :meth:`BlockTable.grow`."""
        self._extend(columns)

    def retire(self, num_processed: int) -> Retired:
        """Attention reads every earlier block: none is ever retired."""
        return NOTHING_RETIRED

    def most_slots(self) -> int:
        """See :meth:`BlockTable.most_slots`."""
        return len(self.columns[0]) * self._block_tokens

    def most_processed(self) -> int | None:
        """See :meth:`BlockTable.most_processed`."""
        return None


class WindowTable(AttentionTable):
    """Sliding windows and chunks: as full attention, but rows that nobody reads are null.

    ::

        null  null  hit  hit                        block size 4, window 8, hit 16
        null  null  hit  hit  new  new              after a chunk to token 24
        null  null  null null new  new  new         in the next step, once 24 were processed

    Committed or not, a row that left the window goes back to the pool: there its content stays
    findable until somebody needs the memory.
    """

    def __init__(
        self,
        spec: GroupSpec,
        window: Window,
        hit_blocks: Sequence[Sequence[BlockId]],
        hit_rows: int,
    ) -> None:
        self._num_retired = hit_rows - len(hit_blocks[0])
        nulls = [NULL_BLOCK] * self._num_retired
        super().__init__(spec, [[*nulls, *column] for column in hit_blocks])
        self._window = window

    def retire(self, num_processed: int) -> Retired:
        """See :meth:`BlockTable.retire`; the tail is released before the head."""
        first, end = self._num_retired, self._window.first_position(num_processed)
        if end <= first:
            return NOTHING_RETIRED
        self._num_retired = end
        rows = (self._remove(position) for position in range(end - 1, first - 1, -1))
        return Retired(held=tuple(row for row in rows if row is not None))

    def most_processed(self) -> int | None:
        """See :meth:`BlockTable.most_processed`."""
        return self._window.last_tokens(self._num_retired)


class FixedTable(_Columns):
    """As many rows as a request needs at once, from its first step to its end."""

    grows = False

    def __init__(self, num_columns: int, num_rows: int) -> None:
        super().__init__([[] for _ in range(num_columns)])
        self._num_rows = num_rows

    def num_new_rows(self, num_tokens: int, num_slots: int) -> int:
        """See :meth:`BlockTable.num_new_rows`."""
        return self._num_rows - len(self)

    def grow(self, num_tokens: int, num_slots: int, columns: Columns) -> None:
        """See :meth:`BlockTable.grow`."""
        self._extend(columns)

    def retire(self, num_processed: int) -> Retired:
        """See :meth:`BlockTable.retire`; all rows are read until the end."""
        return NOTHING_RETIRED

    def most_slots(self) -> int:
        """See :meth:`BlockTable.most_slots`."""
        return ANY_NUMBER if len(self) == self._num_rows else 0

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

    grows = False

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

    def grow(self, num_tokens: int, num_slots: int, columns: Columns) -> None:
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
            self._extend(columns)
        self._is_running = True

    def retire(self, num_processed: int) -> Retired:
        """See :meth:`BlockTable.retire`."""
        end = min((num_processed - 1) // self._block_tokens, len(self))
        positions = self._filled(self._num_retired, end)[::-1]
        self._num_retired = max(self._num_retired, end)
        last = -(-num_processed // self._block_tokens) - 1
        if self._source is not None and self._source < last:
            positions.append(self._source)
            self._source = None
        return self._retire(positions)

    def note_committed(self, positions: Iterable[int]) -> None:
        """See :meth:`BlockTable.note_committed`."""
        self._committed.update(positions)

    def private_rows(self) -> list[Row]:
        """See :meth:`BlockTable.private_rows`."""
        found = self._filled(self._num_retired, len(self))
        rows = (self.row(position) for position in found if position not in self._committed)
        return [row for row in rows if row is not None]

    def most_slots(self) -> int:
        """See :meth:`BlockTable.most_slots`."""
        return (len(self) - self._num_speculative) * self._block_tokens if self._is_running else 0

    def most_processed(self) -> int | None:
        """See :meth:`BlockTable.most_processed`."""
        last = self._num_retired if self._source is None else min(self._num_retired, self._source)
        return (last + 1) * self._block_tokens

    def _filled(self, first: int, end: int) -> list[int]:
        """The positions from ``first`` to before ``end`` that hold a state, few among many."""
        column = self.columns[0][first : max(first, end)]
        if column.count(NULL_BLOCK) == len(column):
            return []
        return [position for position, block in enumerate(column, first) if block != NULL_BLOCK]

    def _retire(self, positions: Iterable[int]) -> Retired:
        held: list[Row] = []
        leased: list[Row] = []
        for position in positions:
            row = self._remove(position)
            if row is not None:
                (held if position in self._committed else leased).append(row)
        return Retired(tuple(held), tuple(leased)) if held or leased else NOTHING_RETIRED

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
            self._extend([(block,) for block in row])


def make_table(
    spec: GroupSpec,
    hit_blocks: Sequence[Sequence[BlockId]],
    hit_tokens: int,
    encoder_tokens: int = 0,
) -> AttentionTable | WindowTable | StateTable | FixedTable:
    """A new request's table, with the blocks its hit touched in place."""
    hit_rows = hit_tokens // spec.block_tokens
    window = window_of(spec)
    if window is not None:
        return WindowTable(spec, window, hit_blocks, hit_rows)
    if spec.kind is GroupKind.FULL_ATTENTION:
        return AttentionTable(spec, hit_blocks)
    if spec.kind is GroupKind.RECURRENT_STATE:
        return StateTable(spec, hit_blocks, hit_rows)
    num_rows = -(-encoder_tokens // spec.block_tokens)
    return FixedTable(len(hit_blocks), 1 if spec.kind is GroupKind.SCRATCH else num_rows)
