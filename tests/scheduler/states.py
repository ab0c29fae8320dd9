"""Recurrent states in align mode, found and moved as vLLM's worker does it.

Column ``i`` of a state group's table stands for tokens ``[i * block, (i + 1) * block)`` and ends up
with the state after the last of them. The running state is in the column of the last token the step
computes, and with drafts in the columns after it, one per draft::

    column   c - 1          c            c + 1        c + 2
             checkpoint     running      1 draft on   2 drafts on

Before a step the state moves on if the column changes (``preprocess_mamba``). The step reads it
there and overwrites it. After a step with drafts, a boundary that was passed among the accepted
ones is saved into its own column (``postprocess_mamba_fused_kernel``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tests.scheduler.layout import GroupLayout
from tests.scheduler.memory import PoolMemory
from tests.scheduler.resident import Chunk, Resident, Span
from tests.scheduler.violation import Violation


@dataclass(frozen=True)
class _Copy:
    resident: Resident
    group: GroupLayout
    source_column: int
    target_column: int
    cells: np.ndarray

    @property
    def source(self) -> Span:
        return self.resident.span(self.group, self.source_column, self.source_column + 1)

    @property
    def target(self) -> Span:
        return self.resident.span(self.group, self.target_column, self.target_column + 1)


@dataclass(frozen=True)
class Moves:
    """Blocks that states were copied from, which others may share, and to, which none may."""

    sources: list[Span]
    targets: list[Span]


class StateLanes:
    """All state groups of a worker: their blocks are always used alike."""

    def __init__(self, memory: PoolMemory) -> None:
        self._memory = memory
        self._groups = memory.layout.states

    def move_on(self, chunks: Sequence[Chunk]) -> Moves:
        """Copy running states to the columns that this step writes, all at once."""
        copies = [
            self._copy(chunk.resident, group, source, self._column(group, chunk))
            for group in self._groups
            for chunk in chunks
            if (source := self._source_column(group, chunk)) is not None
        ]
        _check_no_race(copies)
        for copy in copies:
            self._write(copy)
        for chunk in chunks:
            self._settle_column(chunk)
        return Moves([copy.source for copy in copies], [copy.target for copy in copies])

    def run(self, chunks: Sequence[Chunk]) -> list[Span]:
        """Go on from each running state, all requests at once."""
        pairs = [(group, chunk) for group in self._groups for chunk in chunks]
        read = [self._read_initial(group, chunk) for group, chunk in pairs]
        return read + [self._write_running(group, chunk) for group, chunk in pairs]

    def save_boundaries(self, chunks: Sequence[Chunk]) -> list[Span]:
        """After sampling: keep the state at a block boundary that accepted drafts passed."""
        spans = []
        for chunk in chunks:
            resident = chunk.resident
            resident.num_accepted = chunk.num_accepted_drafts + 1
            if chunk.drafts:
                for group in self._groups:
                    spans += self._save_boundary(group, chunk)
        return spans

    def _column(self, group: GroupLayout, chunk: Chunk) -> int:
        return -(-chunk.stop // group.block_tokens) - 1

    def _source_column(self, group: GroupLayout, chunk: Chunk) -> int | None:
        """Where the state to move on from is, if it must move."""
        previous = chunk.resident.state_column
        if previous is None:
            if chunk.start == 0:
                return None
            previous = (chunk.start - 1) // group.block_tokens
        return None if previous == self._column(group, chunk) else previous

    def _settle_column(self, chunk: Chunk) -> None:
        resident = chunk.resident
        for group in self._groups:
            if self._source_column(group, chunk) is not None:
                resident.num_accepted = 1
        if self._groups:
            resident.state_column = self._column(self._groups[0], chunk)

    def _copy(self, resident: Resident, group: GroupLayout, source: int, target: int) -> _Copy:
        source += resident.num_accepted - 1
        block = resident.block(group, source)
        return _Copy(resident, group, source, target, self._memory.read_state(group, block))

    def _write(self, copy: _Copy) -> None:
        block = copy.resident.block(copy.group, copy.target_column)
        self._memory.put_state(copy.group, block, copy.cells)

    def _read_initial(self, group: GroupLayout, chunk: Chunk) -> Span:
        resident = chunk.resident
        column = self._column(group, chunk)
        if chunk.start > 0:
            column += resident.num_accepted - 1
            expected = resident.text.fingerprint(chunk.start)
            block = resident.block(group, column)
            self._memory.check_state(group, block, expected, resident.request_id)
        return resident.span(group, column, column + 1)

    def _write_running(self, group: GroupLayout, chunk: Chunk) -> Span:
        column = self._column(group, chunk)
        after = chunk.fingerprints[-1 - len(chunk.drafts) :]
        span = chunk.resident.span(group, column, column + len(after))
        for block, fingerprint in zip(span.blocks, after, strict=True):
            self._memory.write_state(group, block, int(fingerprint))
        return span

    def _save_boundary(self, group: GroupLayout, chunk: Chunk) -> list[Span]:
        end = chunk.base + chunk.num_accepted_drafts
        boundary = end // group.block_tokens * group.block_tokens
        if boundary < chunk.base:
            return []
        column = self._column(group, chunk)
        target = boundary // group.block_tokens - 1
        if column == target:
            chunk.resident.num_accepted = 1
        source = column + boundary - chunk.base
        if source == target:
            return []
        block = chunk.resident.block(group, source)
        copy = _Copy(chunk.resident, group, source, target, self._memory.read_state(group, block))
        self._write(copy)
        return [copy.source, copy.target]


def _check_no_race(copies: Sequence[_Copy]) -> None:
    """The copies run side by side: nobody's source may be somebody's target."""
    targets: dict[tuple[int, int], _Copy] = {}
    for copy in copies:
        block = copy.resident.block(copy.group, copy.target_column)
        other = targets.setdefault((copy.group.index, block), copy)
        if other is not copy:
            raise Violation(
                f"{copy.resident.request_id} and {other.resident.request_id} both move their "
                f"state into block {block} of group {copy.group.index}"
            )
    for copy in copies:
        block = copy.resident.block(copy.group, copy.source_column)
        other = targets.get((copy.group.index, block), copy)
        if other.resident is not copy.resident:
            raise Violation(
                f"{other.resident.request_id} overwrites block {block} of group "
                f"{copy.group.index} while {copy.resident.request_id} moves its state from there"
            )
