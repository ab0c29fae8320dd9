"""Layers that draft as EAGLE's do: what they keep of a token depends on the next token, too.

They run once a step is sampled, over the tokens that turned out right, and then go on by
themselves, one token for each draft but the first, which the next step overwrites::

    position    start          base + accepted                      num_drafts - 1 more
    slots       |<- of this and the next token ->|<- of guesses, nobody's to rely on ->|

With stock vLLM there is one exception to what they must read. Of two prompts that part where a
block ends, and that both go on, that block is there twice under one name, and the two copies differ
in their last slot: whoever goes on from it may find the other one's. Here they have two names.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from tests.scheduler.language import mix
from tests.scheduler.layout import GroupLayout
from tests.scheduler.memory import PoolMemory
from tests.scheduler.resident import Chunk, Span

_GUESSED = mix(0, 0)


class DraftLayers:
    """All groups of a worker whose layers draft.

    Attributes:
        num_mistaken: How often another's last slot was read for one's own.
    """

    def __init__(self, memory: PoolMemory, num_drafts: int, max_model_len: int) -> None:
        self._memory = memory
        self._groups = memory.layout.of_drafts
        self._num_ahead = max(num_drafts - 1, 0)
        self._max_model_len = max_model_len
        self.num_mistaken = 0
        # For each prefix of whole blocks, what has gone into its last slot.
        self._last_slots: dict[int, set[int]] = defaultdict(set)

    def run(self, chunks: Sequence[Chunk]) -> tuple[list[Span], list[Span]]:
        """What they read of before their chunks, and what they write; each read is checked."""
        pairs = [(group, chunk) for group in self._groups for chunk in chunks]
        written = [self._write(group, chunk) for group, chunk in pairs]
        return [self._read(group, chunk) for group, chunk in pairs if chunk.start], written

    def _read(self, group: GroupLayout, chunk: Chunk) -> Span:
        resident = chunk.resident
        span = resident.span(group, 0, -(-chunk.start // group.block_tokens))
        table = resident.tables[group.index].array
        seen = self._with_mistakes(group, chunk)
        self._memory.check_slots(group, table, 0, seen, f"the draft of {resident.request_id}")
        return span

    def _with_mistakes(self, group: GroupLayout, chunk: Chunk) -> np.ndarray:
        """What is to be read: one's own, or another's where there are two copies of a block."""
        text, table = chunk.resident.text, chunk.resident.tables[group.index].array
        seen = text.fingerprints(1, chunk.start + 1).copy()
        for position in range(group.block_tokens - 1, chunk.start, group.block_tokens):
            copies = self._last_slots[text.fingerprint(position + 1)]
            if len(copies) > 1 and int(seen[position]) in copies:
                found = [c for c in copies if self._memory.holds_slot(group, table, position, c)]
                self.num_mistaken += found != [seen[position]]
                seen[position] = found[0] if found else seen[position]
        return seen

    def _note_last_slots(self, group: GroupLayout, chunk: Chunk, end: int) -> None:
        text, block_tokens = chunk.resident.text, group.block_tokens
        first = -(-(chunk.start + 1) // block_tokens) * block_tokens
        for num_tokens in range(first, end + 1, block_tokens):
            copies = self._last_slots[text.fingerprint(num_tokens)]
            copies.add(text.fingerprint(num_tokens + 1))

    def _write(self, group: GroupLayout, chunk: Chunk) -> Span:
        end = chunk.base + chunk.num_accepted_drafts
        self._note_last_slots(group, chunk, end)
        stop = min(end + self._num_ahead, self._max_model_len)
        seen = chunk.resident.text.fingerprints(chunk.start + 1, end + 1)
        guessed = np.full(stop - end, _GUESSED, dtype=np.int64)
        first, last = chunk.start // group.block_tokens, (stop - 1) // group.block_tokens
        span = chunk.resident.span(group, first, last + 1)
        table = chunk.resident.tables[group.index].array
        self._memory.write_slots(group, table, chunk.start, np.concatenate([seen, guessed]))
        return span
