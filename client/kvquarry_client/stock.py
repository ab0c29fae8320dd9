"""The states an engine runs its requests on: leased once, used again and again.

A request at a block boundary needs a second state for one step; then the first is retired. With
a stock of its own the engine hands the retired one to the next request at a boundary, and asks
nobody.
"""

from collections.abc import Iterable, Sequence

from kvquarry_client.renames import Renames
from kvquarry_core.ids import BlockId, KindId
from kvquarry_core.messages import Grant
from kvquarry_core.plan import GroupKind, Plan
from kvquarry_core.prefix_index import Row

#: Steps after which rows that lay idle all the while are given back.
_WINDOW_STEPS = 128


class StateStock:
    """Leased rows that no request uses now, by kind."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._rows: list[list[Row]] = [[] for _ in plan.kinds]
        self._least = [0] * len(plan.kinds)
        self._num_steps = 0
        #: Whether a kind's rows come from the stock, by kind.
        self.stocks = [
            plan.spec_of_kind(KindId(index)).kind is GroupKind.RECURRENT_STATE
            for index in range(len(plan.kinds))
        ]

    def __bool__(self) -> bool:
        """Whether there is anything."""
        return any(self._rows)

    def num_rows(self, kind: KindId) -> int:
        """Rows to be had without asking."""
        return len(self._rows[kind])

    def num_rows_by_kind(self) -> list[int]:
        """The same for every kind; none where it is not stocked."""
        return list(map(len, self._rows))

    def count_blocks(self, by_class: list[int]) -> None:
        """Add what is here to a count by size class."""
        for kind, rows in enumerate(self._rows):
            if rows:
                by_class[self._plan.class_of_kind(KindId(kind))] += len(rows) * len(rows[0])

    def columns(self, kind: KindId) -> list[Sequence[BlockId]]:
        """All rows of a kind, one column per member group."""
        columns = list(zip(*self._rows[kind], strict=True))
        return list(columns) or [()] * len(self._plan.kinds[kind])

    def add_grant(self, grant: Grant) -> None:
        """The lease has grown."""
        for kind, members in enumerate(self._plan.kinds):
            if self.stocks[kind]:
                columns = [grant.blocks[group] for group in members]
                self._rows[kind] += zip(*columns, strict=True)

    def rename(self, renames: Renames) -> None:
        """Blocks moved."""
        for rows, members in zip(self._rows, self._plan.kinds, strict=True):
            rows[:] = [renames.row(members, row) for row in rows]

    def take(self, kind: KindId, num_rows: int) -> tuple[Row, ...]:
        """Rows for a request; the one retired last comes first: its bytes may still be cached."""
        rows = self._rows[kind]
        assert num_rows <= len(rows), f"{num_rows} states wanted of {len(rows)} in stock"
        taken = tuple(rows.pop() for _ in range(num_rows))
        self._least[kind] = min(self._least[kind], len(rows))
        return taken

    def recycle(self, kind: KindId, rows: Iterable[Row]) -> None:
        """States nobody reads any more."""
        self._rows[kind] += rows

    def take_idle(self) -> list[tuple[KindId, list[Row]]]:
        """Call once a step: now and then, the rows that were not needed for a long time."""
        self._num_steps += 1
        if self._num_steps % _WINDOW_STEPS:
            return []
        idle = self._take_first(self._least)
        self._least = [len(rows) for rows in self._rows]
        return idle

    def take_all(self) -> list[tuple[KindId, list[Row]]]:
        """Every row, when nobody runs or memory is short."""
        return self._take_first([len(rows) for rows in self._rows])

    def take_beyond(self, beyond: list[int]) -> list[tuple[KindId, list[Row]]]:
        """Rows of ``beyond[c]`` blocks of every class ``c``, which shrinks by what is taken."""
        num_rows = [0] * len(self._rows)
        for index, rows in enumerate(self._rows):
            size_class = self._plan.class_of_kind(KindId(index))
            if rows and beyond[size_class] > 0:
                width = len(rows[0])
                num_rows[index] = min(-(-beyond[size_class] // width), len(rows))
                beyond[size_class] -= num_rows[index] * width
        return self._take_first(num_rows)

    def _take_first(self, num_rows: Sequence[int]) -> list[tuple[KindId, list[Row]]]:
        """The rows that lay in stock for longest, by kind."""
        taken = []
        for index, num in enumerate(num_rows):
            if num:
                taken.append((KindId(index), self._rows[index][:num]))
                del self._rows[index][:num]
                self._least[index] = min(self._least[index], len(self._rows[index]))
        return taken
