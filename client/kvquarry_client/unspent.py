"""Attention rows that a request was granted and has not spent.

States are not granted to a request: they come from the engine's stock.
"""

from itertools import chain

from kvquarry_client.renames import Renames
from kvquarry_client.tables import Columns
from kvquarry_core.ids import BlockId, KindId
from kvquarry_core.messages import Grant
from kvquarry_core.plan import Plan


class Unspent:
    """Granted rows by kind, one column per member group, in the order in which they are spent."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        #: By kind and member group.
        self.columns: list[list[list[BlockId]]] = [[[] for _ in members] for members in plan.kinds]
        # By kind, the blocks that are to be zeroed once they are spent.
        self._dirty: list[set[BlockId]] = [set() for _ in plan.kinds]

    def __bool__(self) -> bool:
        """Whether there is something to give back."""
        return any(columns[0] for columns in self.columns)

    @property
    def num_blocks(self) -> int:
        """Blocks of all kinds."""
        return sum(len(columns[0]) * len(columns) for columns in self.columns)

    def num_rows(self, kind: KindId) -> int:
        """Rows of a kind."""
        return len(self.columns[kind][0])

    def add(self, grant: Grant) -> None:
        """Blocks were granted; they are spent after those granted before."""
        for members, columns, dirty in zip(
            self._plan.kinds, self.columns, self._dirty, strict=True
        ):
            for group, column in zip(members, columns, strict=True):
                column.extend(grant.blocks[group])
                dirty.update(grant.dirty[group])

    def take(self, kind: KindId, num_rows: int) -> Columns:
        """Spend rows of a kind."""
        granted = self.columns[kind]
        assert num_rows <= len(granted[0]), f"{num_rows} rows wanted of {len(granted[0])} granted"
        columns = [column[:num_rows] for column in granted]
        for column in granted:
            del column[:num_rows]
        return columns

    def take_dirty(self, kind: KindId, columns: Columns) -> list[BlockId]:
        """The blocks among those spent that are to be zeroed."""
        dirty = self._dirty[kind]
        if not dirty:
            return []
        found = [*chain.from_iterable(columns)]
        if not dirty.issuperset(found):
            found = [block for block in found if block in dirty]
        dirty.difference_update(found)
        return found

    def clear(self) -> None:
        """Everything went back."""
        for columns, dirty in zip(self.columns, self._dirty, strict=True):
            dirty.clear()
            for column in columns:
                column.clear()

    def count_blocks(self, by_class: list[int]) -> None:
        """Add what is here to a count by size class."""
        for kind, columns in enumerate(self.columns):
            num_rows = len(columns[0])
            if num_rows:
                by_class[self._plan.class_of_kind(KindId(kind))] += num_rows * len(columns)

    def relieves(self, beyond: list[int]) -> bool:
        """Whether giving all of this back would help where ``beyond[c]`` blocks are too many.

        If so, they shrink by it.
        """
        here = [0] * len(beyond)
        self.count_blocks(here)
        if not any(num and more > 0 for num, more in zip(here, beyond, strict=True)):
            return False
        beyond[:] = [more - num for num, more in zip(here, beyond, strict=True)]
        return True

    def rename(self, renames: Renames) -> None:
        """Blocks moved."""
        for members, columns, dirty in zip(
            self._plan.kinds, self.columns, self._dirty, strict=True
        ):
            for group, column in zip(members, columns, strict=True):
                renames.apply(group, column)
            renamed = {renames.of_group(members[0], block) for block in dirty}
            dirty.clear()
            dirty.update(renamed)
