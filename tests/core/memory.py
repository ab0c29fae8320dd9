"""The bytes of a pool, coarsely: who wrote what where, whatever the accounting believes.

All regions of a pool are cut the same way, so one stands for all. A region is a row of cells, the
largest pieces that no block of any class splits::

    cells      | 0 | 1 | 2 | 3 | 4 | 5 | ...
    class 0    |   0   |   1   |   2   |
    class 1    |     0     |     1     |

Two blocks of different classes that share a byte share a cell, so a write through one is seen
through the other.
"""

import math
from collections.abc import Iterable, Mapping

from kvquarry_core.ids import BlockId, ClassId
from kvquarry_core.plan import Plan

#: What a cell holds. Equal tags mean equal bytes.
Tag = tuple[object, ...]
#: A block of any class.
Key = tuple[ClassId, BlockId]

NULL: Key = (ClassId(0), BlockId(0))


class Memory:
    """One region as the workers see it."""

    def __init__(self, plan: Plan) -> None:
        self._strides = [size_class.stride_bytes for size_class in plan.classes]
        self._cell_bytes = math.gcd(*self._strides)
        num_cells = plan.region_bytes // self._cell_bytes
        self._tags: list[Tag] = [("garbage",)] * num_cells
        self._writers: list[ClassId | None] = [None] * num_cells

    def cells(self, key: Key) -> range:
        """The cells a block covers."""
        size_class, block = key
        start = block * self._strides[size_class] // self._cell_bytes
        return range(start, start + self._strides[size_class] // self._cell_bytes)

    def write(self, key: Key, tag: Tag) -> None:
        """Fill a block."""
        for cell in self.cells(key):
            self._tags[cell] = tag
            self._writers[cell] = key[0]

    def read(self, key: Key) -> set[Tag]:
        """All that is found in a block: one tag, unless somebody else wrote into it."""
        return {self._tags[cell] for cell in self.cells(key)}

    def copy(self, targets: Mapping[Key, Key]) -> None:
        """Copy all of these blocks' bytes at once."""
        before = {
            source: [(self._tags[cell], self._writers[cell]) for cell in self.cells(source)]
            for source in targets
        }
        for source, target in targets.items():
            for cell, (tag, writer) in zip(self.cells(target), before[source], strict=True):
                self._tags[cell], self._writers[cell] = tag, writer

    def writers(self, key: Key) -> set[ClassId | None]:
        """The classes whose blocks the bytes were written through last."""
        return {self._writers[cell] for cell in self.cells(key)}

    def overlaps(self, live: Iterable[Key]) -> list[Key]:
        """The blocks among ``live`` that share a byte with another one, or with a null block."""
        num_null_cells = max(self._strides) // self._cell_bytes
        owners: dict[int, Key] = dict.fromkeys(range(num_null_cells), NULL)
        return [
            key for key in live for cell in self.cells(key) if owners.setdefault(cell, key) != key
        ]
