"""What the worker keeps of a request between steps, and what a step is to do for it."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from kvquarry_client.renames import Renames
from kvquarry_core.ids import GroupId
from tests.scheduler.language import Text, mix, wrong_token
from tests.scheduler.layout import GroupLayout
from tests.scheduler.memory import check_blocks
from tests.scheduler.violation import Violation


class BlockTable:
    """One group's column of block ids: only ever grows, or is replaced as a whole."""

    def __init__(self, blocks: list[int]) -> None:
        self.blocks = list(blocks)
        self._array: np.ndarray | None = None

    def extend(self, blocks: list[int]) -> None:
        """Append new blocks."""
        if blocks:
            self.blocks.extend(blocks)
            self._array = None

    def rename(self, renames: Renames, group: int) -> None:
        """Blocks moved."""
        if renames.apply(GroupId(group), self.blocks):
            self._array = None

    @property
    def array(self) -> np.ndarray:
        """The table for vectorised look-ups."""
        if self._array is None:
            self._array = np.array(self.blocks, dtype=np.int64)
        return self._array


@dataclass
class Resident:
    """A request the worker knows.

    Attributes:
        life: How often it was taken up; a preempted request starts a new life.
        num_computed: Tokens whose KV is really there, wrong drafts not counted.
        num_known: Tokens said so far: the prompt and all that was sampled.
        drafts: The worker's guesses for the tokens from ``num_known`` on, if it made any.
        state_column: Where the running state is, None before the first step of a life.
        num_accepted: Tokens the last step yielded; the running state of the last but ``n`` is
            ``n`` columns further right (see :mod:`tests.scheduler.states`).
    """

    request_id: str
    text: Text
    tables: list[BlockTable]
    num_computed: int
    num_known: int
    life: int = 0
    drafts: list[int] = field(default_factory=list)
    state_column: int | None = None
    num_accepted: int = 1

    def block(self, group: GroupLayout, column: int) -> int:
        """The block at a column that is about to be used."""
        return self.span(group, column, column + 1).blocks[0]

    def span(self, group: GroupLayout, first: int, stop: int) -> Span:
        """The blocks at columns ``first <= c < stop`` that are about to be used."""
        blocks = self.tables[group.index].blocks
        if not 0 <= first < stop <= len(blocks):
            raise Violation(
                f"{self.request_id} uses columns {first} to {stop} of group {group.index}, "
                f"where it was given {len(blocks)} blocks"
            )
        check_blocks(group, blocks[first:stop], self.request_id)
        return Span(self.request_id, group.index, first, blocks[first:stop])


@dataclass(frozen=True)
class Span:
    """Blocks in consecutive columns that a step reads or writes for a request."""

    request_id: str
    group: int
    column: int
    blocks: list[int]


@dataclass(frozen=True)
class Chunk:
    """One request's share of a step.

    ::

        0            start                 base              stop
        |<- computed ->|<- known tokens ->|<---- drafts ---->|
                                          ^ the sample that verifies the first draft

    An early chunk of a prefill ends before the last known token and samples nothing.
    """

    resident: Resident
    start: int
    base: int
    drafts: tuple[int, ...]
    samples: bool

    @property
    def stop(self) -> int:
        """One past the last position that is written."""
        return self.base + len(self.drafts)

    @cached_property
    def num_accepted_drafts(self) -> int:
        """The leading drafts that are what the model says."""
        true = self.resident.text.tokens(self.base, self.stop)
        matches = [draft == token for draft, token in zip(self.drafts, true, strict=True)]
        return matches.index(False) if False in matches else len(matches)

    @cached_property
    def fingerprints(self) -> np.ndarray:
        """For each position from ``start`` to ``stop``, the prefix as this step sees it."""
        text = self.resident.text
        known = text.fingerprints(self.start, self.base)
        if not self.drafts:
            return known
        guessed, last = [], text.fingerprint(self.base)
        for draft in self.drafts:
            last = mix(last, draft)
            guessed.append(last)
        return np.concatenate([known, np.array(guessed, dtype=np.int64)])


def placeholder_drafts(resident: Resident, num_drafts: int) -> tuple[int, ...]:
    """What stands behind ``[-1] * num_drafts``: the worker's own guesses, or nothing right."""
    guesses = list(resident.drafts[:num_drafts])
    base = resident.num_known
    missing = resident.text.tokens(base + len(guesses), base + num_drafts)
    return tuple(guesses + [wrong_token(token) for token in missing])
