"""The pool's memory, with contents that tell whose they are.

A cell holds 0 (zeroed), a negative value (garbage: whatever the memory held before the pool), the
fingerprint of one token's KV, or a piece of a state. Contents differ by group and by place within
a block, so a read from the wrong group, the wrong offset or a half overwritten block shows.
"""

from __future__ import annotations

import numpy as np

from tests.scheduler.language import MODULUS
from tests.scheduler.layout import NULL_BLOCK, GroupLayout, PoolLayout
from tests.scheduler.violation import Violation

_STATE_BIT = 1 << 61
_GARBAGE = -1
#: Keep the contents of groups, and of cells within a block, apart.
_GROUP_STEP = 0x1F83D9ABFB41
_CELL_STEP = 0x5BE0CD19


class PoolMemory:
    """One layer's region, which all groups see through their own strides."""

    def __init__(self, layout: PoolLayout) -> None:
        self.layout = layout
        #: Blocks whose bytes became those of another kind of content.
        self.num_turned_into_attention = 0
        self.num_turned_into_states = 0
        self._cells = np.zeros(layout.num_cells, dtype=np.int64)

    def fill_with_garbage(self) -> None:
        """What memory may hold before it becomes a pool, where nobody zero-fills it."""
        self._cells[:] = _GARBAGE

    def zero(self, group: GroupLayout, blocks: list[int]) -> None:
        """Zero whole blocks, as the worker does with new attention blocks."""
        for block in blocks:
            start = group.start(block)
            cells = self._cells[start : start + group.size]
            self.num_turned_into_attention += bool((cells & _STATE_BIT)[cells > 0].any())
            cells[:] = 0

    def copy(self, group: GroupLayout, source: int, target: int) -> None:
        """Copy a whole block of the group's class, as the worker does with moved blocks."""
        cells = self._cells
        first, start = group.start(source), group.start(target)
        cells[start : start + group.size] = cells[first : first + group.size]

    # Attention: one slot per token.

    def write_slots(
        self, group: GroupLayout, table: np.ndarray, first: int, fingerprints: np.ndarray
    ) -> None:
        """Write the KV of the tokens at positions ``first`` and on."""
        cells = self._slot_cells(group, table, first, first + len(fingerprints))
        self._cells[cells] = _slot_contents(group, fingerprints)

    def check_slots(
        self,
        group: GroupLayout,
        table: np.ndarray,
        first: int,
        fingerprints: np.ndarray,
        reader: str,
    ) -> None:
        """The slots from position ``first`` on hold exactly these prefixes' KV."""
        cells = self._slot_cells(group, table, first, first + len(fingerprints))
        wrong = (self._cells[cells] != _slot_contents(group, fingerprints)).any(axis=1)
        if wrong.any():
            index = int(wrong.argmax())
            position = first + index
            block = int(table[position // group.block_tokens])
            raise Violation(
                f"{reader} reads in group {group.index} at position {position}, block {block}: "
                f"{self._describe(cells[index, 0])} instead of its own KV"
            )

    def holds_slot(
        self, group: GroupLayout, table: np.ndarray, position: int, fingerprint: int
    ) -> bool:
        """Whether the slot at a position holds this prefix's KV."""
        cells = self._slot_cells(group, table, position, position + 1)
        return bool((self._cells[cells] == _slot_contents(group, np.array([fingerprint]))).all())

    def check_tail(self, group: GroupLayout, block: int, num_tokens: int, reader: str) -> None:
        """The slots after the first ``num_tokens`` hold no number that attention cannot mask.

        A kernel loads the whole block and multiplies what lies beyond by zero: KV of others
        vanishes, the bits of a state or of foreign memory may be NaN.
        """
        start = group.start(block)
        tail = self._cells[start + num_tokens * group.cells_per_token : start + group.size]
        if ((tail < 0) | (tail & _STATE_BIT != 0)).any():
            raise Violation(
                f"{reader} loads block {block} of group {group.index}, which was not zeroed: "
                "it holds bytes that are no KV beyond its own tokens"
            )

    # States: a block is one state.

    def read_state(self, group: GroupLayout, block: int) -> np.ndarray:
        """A copy of a state block's cells."""
        start = group.start(block)
        return self._cells[start : start + group.size].copy()

    def put_state(self, group: GroupLayout, block: int, cells: np.ndarray) -> None:
        """Overwrite a state block."""
        start = group.start(block)
        before = self._cells[start : start + group.size]
        self.num_turned_into_states += bool(((before > 0) & (before & _STATE_BIT == 0)).any())
        before[:] = cells

    def write_state(self, group: GroupLayout, block: int, fingerprint: int) -> None:
        """Write the state after the prefix with this fingerprint."""
        self.put_state(group, block, _state_contents(group, fingerprint))

    def check_state(self, group: GroupLayout, block: int, fingerprint: int, reader: str) -> None:
        """A block holds the state after exactly this prefix."""
        start = group.start(block)
        cells = self._cells[start : start + group.size]
        wrong = cells != _state_contents(group, fingerprint)
        if wrong.any():
            first = start + int(wrong.argmax())
            raise Violation(
                f"{reader} goes on from block {block} of state group {group.index}: "
                f"{self._describe(first)} instead of the state after its own prefix"
            )

    def _slot_cells(
        self, group: GroupLayout, table: np.ndarray, first: int, stop: int
    ) -> np.ndarray:
        positions = np.arange(first, stop)
        starts = group.starts(table[positions // group.block_tokens])
        offsets = positions % group.block_tokens * group.cells_per_token
        return (starts + offsets)[:, None] + np.arange(group.cells_per_token)

    def _describe(self, cell: int) -> str:
        value = int(self._cells[cell])
        if value == 0:
            return "zeros"
        if value < 0:
            return "garbage"
        return "part of a state" if value & _STATE_BIT else "another token's KV"


def _slot_contents(group: GroupLayout, fingerprints: np.ndarray) -> np.ndarray:
    steps = np.arange(group.cells_per_token) * _CELL_STEP + group.index * _GROUP_STEP
    return (fingerprints[:, None] + steps) % MODULUS


def _state_contents(group: GroupLayout, fingerprint: int) -> np.ndarray:
    steps = np.arange(group.size) * _CELL_STEP + group.index * _GROUP_STEP
    return (fingerprint + steps) % MODULUS | _STATE_BIT


def check_blocks(group: GroupLayout, blocks: list[int], user: str) -> None:
    """Blocks that are read or written exist and are not the null block."""
    if min(blocks) <= NULL_BLOCK or max(blocks) >= group.num_blocks:
        raise Violation(
            f"{user} uses blocks {blocks} of group {group.index}, which has blocks 1 to "
            f"{group.num_blocks - 1}"
        )
