"""Recurrent states: one that runs, and those that stay behind at block boundaries."""

from collections.abc import Iterable, Sequence

from kvquarry_client.tables.table import NOTHING_RETIRED, Columns, ColumnTable, Retired
from kvquarry_core.ids import NULL_BLOCK, BlockId
from kvquarry_core.plan import GroupSpec
from kvquarry_core.prefix_index import Row


class StateTable(ColumnTable):
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
        num_rows, length = self._num_rows_at(num_tokens), len(self.columns[0])
        if num_rows <= length:
            return 0
        if not self._num_speculative:
            return 1  # The state at the chunk's end.
        return num_rows - length - self._num_nulls(num_rows) - self._num_moved(num_rows)

    def grow(self, num_tokens: int, num_slots: int, columns: Columns) -> None:
        """See :meth:`BlockTable.grow`."""
        num_rows, length = self._num_rows_at(num_tokens), len(self.columns[0])
        if num_rows > length:
            num_nulls, num_moved = self._num_nulls(num_rows), self._num_moved(num_rows)
            if self._is_running:
                self._source = length - 1 - self._num_speculative
            elif length:
                self._source = length - 1
            self.append_nulls(num_nulls)
            self._move_speculative(length - self._num_speculative, num_moved)
            self.extend(columns)
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
        if not self._is_running:
            return 0
        return (len(self.columns[0]) - self._num_speculative) * self._block_tokens

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
            row = self.remove(position)
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
        if not self._is_running or not self._num_speculative:
            return 0
        running = num_rows - self._num_speculative - 1
        return max(min(len(self), running) - (len(self) - self._num_speculative), 0)

    def _move_speculative(self, first: int, num_rows: int) -> None:
        for position in range(first, first + num_rows):
            row = self.remove(position)
            assert row is not None, f"the draft state at position {position} is gone"
            self.extend([(block,) for block in row])
