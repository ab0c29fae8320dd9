"""Rows of a draft model: committed when the hash unit after them is full, and read by nobody else.

What is written is followed slot by slot: a draft's slot depends on all tokens up to the next one.
"""

import math
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvquarry_client.inproc import open_inproc, register_inproc_worker
from kvquarry_client.records import ShadowRequest
from kvquarry_client.scheduling import Allocation, Committed, ShadowSettings, Waiting
from kvquarry_client.shadow import Shadow
from kvquarry_core.checkpoints import Checkpoints
from kvquarry_core.ids import NULL_BLOCK, BlockHash, BlockId, GroupId
from kvquarry_core.integrity import check_integrity
from kvquarry_core.plan import GroupKind, GroupSpec, Plan, make_plan
from kvquarry_core.retention import Dense, Landmarks
from kvquarry_core.worker_layout import planned_views
from tests.core import reference
from tests.strategies import examples

FULL, SLIDING = GroupKind.FULL_ATTENTION, GroupKind.SLIDING_WINDOW
TEXTS = st.builds(
    lambda document, length, ending: document[:length] + ending,
    st.sampled_from(["a" * 40, "ab" * 20, "aaaabbbb" * 5]),
    st.integers(0, 40),
    st.text("ab", min_size=1, max_size=10),
)


@dataclass
class Writer:
    """An engine that serves texts, one token a letter, and notes what each slot depends on."""

    plan: Plan
    checkpoints: Checkpoints
    served: list[str] = field(default_factory=list)
    #: By group and block, what the tokens' slots depend on.
    slots: dict[tuple[int, BlockId], dict[int, str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        pool_id, self.ledger = open_inproc(self.plan)
        register_inproc_worker(pool_id, list(planned_views(self.plan)), self.plan.pool_bytes)
        settings = ShadowSettings(
            max_grant_tokens=64,
            lookahead_tokens=0,
            must_fit_whole=True,
            keep_free_blocks=(),
            checkpoints=self.checkpoints,
        )
        self.shadow = Shadow(self.plan, self.ledger, settings)

    def hashes(self, text: str) -> list[BlockHash]:
        ends = range(self.plan.hash_tokens, len(text) + 1, self.plan.hash_tokens)
        return [BlockHash(text[:end].encode()) for end in ends]

    def serve(self, text: str, prompt_tokens: int, chunk_tokens: int) -> int:
        """A prompt in chunks, then its answer token by token; what it hit."""
        name = f"{len(self.served)}"
        self.served.append(text)
        waiting = Waiting(name, self.hashes(text[:prompt_tokens]), prompt_tokens)
        hit_tokens = computed = self.shadow.lookup(waiting).hit_tokens
        while computed < len(text) - 1:
            step = chunk_tokens if computed < prompt_tokens else 1
            end = min(computed + step, max(prompt_tokens, computed + 1), len(text) - 1)
            request = self._compute(waiting, computed, end)
            if computed == hit_tokens:
                self._check_hit(request, text, hit_tokens)
            self._write(request, text, computed, end)
            self._commit(request, name, text[: max(end, prompt_tokens)], end)
            self.shadow.begin_step()
            computed = end
        self.shadow.free(name)
        check_integrity(self.ledger.pool)
        return hit_tokens

    def _compute(self, waiting: Waiting, start: int, end: int) -> ShadowRequest:
        allocation, running = Allocation(end, end, start), self.shadow.find(waiting.request_id)
        if running is None:
            running = self.shadow.allocate_first(waiting, allocation, keep_free=False)
            assert running is not None
        elif not self.shadow.is_quiet(running, end, start):
            assert self.shadow.allocate(running, allocation)
        return running

    def _commit(self, request: ShadowRequest, name: str, known: str, end: int) -> None:
        """All that is known is named; where a step is quiet there is nothing to name."""
        is_quiet = self.shadow.is_quiet(request, end, end - 1)
        committed = self.shadow.commit(name, self.hashes(known), end, Landmarks())
        assert not (is_quiet and committed), "what has to be named was passed over"
        self.check_names(committed, known)

    def check_names(self, committed: list[Committed], known: str) -> None:
        for one in committed:
            spec = self.plan.spec_of_kind(one.kind)
            for position, name in zip(one.positions, one.names, strict=True):
                end = (position + 1) * spec.block_tokens + self.plan.hash_tokens * spec.is_draft
                assert name == known[:end].encode()

    def _write(self, request: ShadowRequest, text: str, start: int, end: int) -> None:
        for group, blocks in enumerate(request.block_ids()):
            spec = self.plan.groups[group]
            for token in range(start, end):
                block = blocks[token // spec.block_tokens]
                slots = self.slots.setdefault((group, block), {})
                slots[token % spec.block_tokens] = text[: token + 1 + spec.is_draft]

    def _check_hit(self, request: ShadowRequest, text: str, hit_tokens: int) -> None:
        """What is read of a hit was made of tokens that the text has, too."""
        for group, blocks in enumerate(request.block_ids()):
            spec = self.plan.groups[GroupId(group)]
            for position in reference.positions_read(spec, hit_tokens):
                assert blocks[position] != NULL_BLOCK
                slots = self.slots[group, blocks[position]]
                assert len(slots) == spec.block_tokens
                assert all(text.startswith(one) for one in slots.values()), "another's slot is read"

    def expected_hit(self, prompt: str) -> int:
        """Every length, token by token, against every text that was served."""
        most_tokens = (len(prompt) - 1) // self.plan.hash_tokens * self.plan.hash_tokens
        for num_tokens in range(most_tokens, 0, -1):
            if all(self._has(spec, prompt[:most_tokens], num_tokens) for spec in self.plan.groups):
                return num_tokens
        return 0

    def _has(self, spec: GroupSpec, text: str, num_tokens: int) -> bool:
        if num_tokens % spec.block_tokens:
            return False
        ends = [
            (position + 1) * spec.block_tokens + self.plan.hash_tokens * spec.is_draft
            for position in reference.positions_read(spec, num_tokens)
        ]
        return all(
            end <= len(text) and any(one[:-1].startswith(text[:end]) for one in self.served)
            for end in ends
        )


@st.composite
def plans(draw: st.DrawFn, unit_tokens: int) -> Plan:
    """A draft's group of blocks of one to eight hash units, beside attention."""
    blocks = st.integers(1, 8).map(lambda units: units * unit_tokens)
    draft_tokens, other_tokens = draw(blocks), draw(blocks)
    # A window no wider than a hash unit gives rows up before they have a name.
    reach = unit_tokens + draw(st.integers(1, 40))
    groups = draw(
        st.sampled_from(
            [
                [GroupSpec(FULL, draft_tokens, 64, 1, is_draft=True)],
                [GroupSpec(SLIDING, draft_tokens, 64, 1, window_tokens=reach, is_draft=True)],
            ]
        )
    )
    groups += [GroupSpec(FULL, other_tokens, 96, 1)]
    return replace(make_plan(groups, 200_000), hash_tokens=unit_tokens)


@examples(100)
@given(
    st.integers(1, 4).flatmap(plans),
    st.lists(st.tuples(TEXTS, st.integers(1, 50), st.integers(1, 30)), min_size=2, max_size=4),
)
def test_a_draft_hits_what_goes_on_alike_and_reads_no_slot_of_another(
    plan: Plan, requests: list[tuple[str, int, int]]
) -> None:
    """Whatever the chunks. With a hash for every token that is all of which the next one agrees."""
    align = math.lcm(*(spec.block_tokens for spec in plan.groups))
    writer = Writer(plan, Checkpoints(Dense(), align))
    for text, prompt_tokens, chunk_tokens in requests:
        prompt = text[:prompt_tokens]
        expected = writer.expected_hit(prompt)
        assert writer.serve(text + "c", len(prompt), chunk_tokens) == expected


@pytest.mark.parametrize("unit_tokens", [4, 16])
def test_a_draft_of_coarse_blocks_is_hit_one_hash_unit_before_its_end(unit_tokens: int) -> None:
    """A block is 16 tokens; the text goes on for one unit, or for one token less."""
    groups = [GroupSpec(FULL, 16, 64, 1, is_draft=True)]
    plan = replace(make_plan(groups, 200_000), hash_tokens=unit_tokens)
    writer = Writer(plan, Checkpoints(Dense(), 16))
    text = "a" * (32 + unit_tokens)
    writer.serve(text + "b", len(text), 64)
    assert writer.serve(text + "c", len(text), 64) == 16
    assert writer.serve(text + "cd", len(text) + 1, 64) == 32
    writer.serve("b" * (31 + unit_tokens) + "c", 31 + unit_tokens, 64)
    assert writer.serve("b" * 60, 60, 64) == 16


def test_a_window_gives_up_no_row_that_waits_for_others_to_be_named() -> None:
    """Hits end at multiples of 8. With 43 tokens row 8 is left, with 44 row 9 has a name."""
    groups = [
        GroupSpec(SLIDING, 4, 64, 1, window_tokens=8, is_draft=True),
        GroupSpec(FULL, 8, 64, 1),
    ]
    writer = Writer(make_plan(groups, 200_000), Checkpoints(Dense(), 8))
    text = "ab" * 30
    writer.serve(text[:50], 38, 64)
    assert writer.serve(text[:46], 46, 64) == 40
