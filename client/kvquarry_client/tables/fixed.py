"""Encoders and scratch: as many blocks as there will ever be, from the first step on."""

from kvquarry_client.tables.table import (
    ANY_NUMBER,
    NOTHING_RETIRED,
    Columns,
    ColumnTable,
    Retired,
)


class FixedTable(ColumnTable):
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
        self.extend(columns)

    def retire(self, num_processed: int) -> Retired:
        """See :meth:`BlockTable.retire`; all rows are read until the end."""
        return NOTHING_RETIRED

    def most_slots(self) -> int:
        """See :meth:`BlockTable.most_slots`."""
        return ANY_NUMBER if len(self) == self._num_rows else 0

    def most_processed(self) -> int | None:
        """See :meth:`BlockTable.most_processed`."""
        return None
