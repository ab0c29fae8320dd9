"""Attention: a block at every position, for good or until a window has left it."""

from collections.abc import Sequence

from kvquarry_client.tables.table import NOTHING_RETIRED, Columns, ColumnTable, Retired
from kvquarry_core.group_rules import Window
from kvquarry_core.ids import NULL_BLOCK, BlockId
from kvquarry_core.plan import GroupSpec


class AttentionTable(ColumnTable):
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
        self.extend(columns)

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
        rows = (self.remove(position) for position in range(end - 1, first - 1, -1))
        return Retired(held=tuple(row for row in rows if row is not None))

    def most_processed(self) -> int | None:
        """See :meth:`BlockTable.most_processed`."""
        return self._window.last_tokens(self._num_retired)
