"""The blocks that a hit will reference: counted at once, listed only for who looks at each."""

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import overload

from kvquarry_core.ids import BlockId


class Touched(Sequence[set[BlockId]]):
    """Blocks by size class.

    Attributes:
        num_blocks: As many as there are at most, by size class.
    """

    def __init__(
        self, num_blocks: Sequence[int], list_blocks: Callable[[], Sequence[set[BlockId]]]
    ) -> None:
        self.num_blocks = num_blocks
        self._list_blocks = list_blocks

    @cached_property
    def _blocks(self) -> Sequence[set[BlockId]]:
        return self._list_blocks()

    def __len__(self) -> int:
        return len(self.num_blocks)

    @overload
    def __getitem__(self, index: int) -> set[BlockId]: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[set[BlockId]]: ...

    def __getitem__(self, index: int | slice) -> set[BlockId] | Sequence[set[BlockId]]:
        """The blocks of one class."""
        return self._blocks[index]
