"""What a draft model's group may hit: brute force over the tokens that its slots depend on."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from kvquarry_core.coordinator import Coordinator, Hit
from kvquarry_core.ids import BlockHash, BlockId, KindId
from kvquarry_core.plan import GroupSpec, Plan
from kvquarry_core.prefix_index import PrefixIndex
from tests.core import reference
from tests.core.small_pools import attention, chunks, draft, hashes, states, window
from tests.core.test_coordinator import Key, find, plan_of
from tests.strategies import examples

#: Tokens, one a letter. What is sent later mostly begins like something that was sent before.
DOCUMENTS = st.sampled_from(["a" * 32, "ab" * 16, "aaaabbbb" * 4])
TEXTS = st.builds(
    lambda document, length, ending: document[:length] + ending,
    DOCUMENTS,
    st.integers(0, 32),
    st.text("ab", max_size=10),
)


@dataclass(frozen=True)
class Written:
    """A row, and the tokens that its slots depend on: a draft's on the token after it, too."""

    kind: KindId
    position: int
    tokens: str
    name: BlockHash


@st.composite
def models(draw: st.DrawFn, unit_tokens: int) -> Plan:
    """A draft's group of blocks of one to eight units, and others beside it."""
    blocks = st.integers(1, 8).map(lambda units: units * unit_tokens)
    reach = st.integers(1, 20)
    drafts = st.one_of(
        st.builds(draft, st.just(32), blocks),
        st.builds(partial(window, is_draft=True), st.just(32), reach, blocks),
        st.builds(partial(chunks, is_draft=True), st.just(32), reach, blocks),
    )
    others = st.one_of(
        st.builds(attention, st.just(16), blocks),
        st.builds(window, st.just(16), reach, blocks),
        st.builds(states, st.just(48), blocks),
    )
    groups = [draw(drafts), *draw(st.lists(st.one_of(drafts, others), max_size=2))]
    return replace(plan_of(groups), hash_tokens=unit_tokens)


def unit_hashes(plan: Plan, text: str) -> list[BlockHash]:
    """One for each full hash unit of a text; chained, since each names all letters before it."""
    ends = range(plan.hash_tokens, len(text) + 1, plan.hash_tokens)
    return [BlockHash(text[:end].encode()) for end in ends]


def written(plan: Plan, text: str) -> list[Written]:
    """All rows that a request with this text leaves."""
    names, rows = unit_hashes(plan, text), []
    for kind in kind_ids(plan):
        spec = plan.spec_of_kind(kind)
        for position in range(len(text) // spec.block_tokens):
            name = reference.name_at(plan, spec, names, position)
            if name is not None:
                end = (position + 1) * spec.block_tokens + spec.is_draft
                rows.append(Written(kind, position, text[:end], name))
    return rows


def index_of(plan: Plan, rows: Sequence[Written]) -> PrefixIndex:
    """Every row is found by its name and is known by its number."""
    index = PrefixIndex(len(plan.kinds))
    for number, row in enumerate(rows):
        width = len(plan.kinds[row.kind])
        blocks = [BlockId(number * 4 + member) for member in range(width)]
        index.insert(row.kind, [row.name], blocks)
    return index


def fits(plan: Plan, row: Written, text: str, beyond: int) -> bool:
    """Whether a row is of use to a text; a draft's where so many tokens after it agree."""
    spec = plan.spec_of_kind(row.kind)
    end = (row.position + 1) * spec.block_tokens
    return row.name[:end] == text[:end].encode() and (
        not spec.is_draft or row.name[: end + beyond] == text[: end + beyond].encode()
    )


def longest(plan: Plan, rows: Sequence[Written], text: str, beyond: int) -> int:
    """Every length from the longest to the shortest, put to every kind, token by token."""
    for num_tokens in range(len(text), 0, -1):
        if all(reads_all(plan, kind, rows, text, (num_tokens, beyond)) for kind in kind_ids(plan)):
            return num_tokens
    return 0


def reads_all(
    plan: Plan, kind: KindId, rows: Sequence[Written], text: str, case: tuple[int, int]
) -> bool:
    (num_tokens, beyond), spec = case, plan.spec_of_kind(kind)
    there = {row.position for row in rows if row.kind == kind and fits(plan, row, text, beyond)}
    read = reference.positions_read(spec, num_tokens)
    return num_tokens % spec.block_tokens == 0 and there.issuperset(read)


def look_up(plan: Plan, rows: Sequence[Written], text: str) -> Hit:
    names = unit_hashes(plan, text)
    return Coordinator(plan).longest_hit(index_of(plan, rows), names, len(text))


def rows_left(plan: Plan, texts: list[str], data: st.DataObject, most_holes: int) -> list[Written]:
    """What some requests left, but for some rows that were evicted since."""
    rows = [row for text in texts for row in written(plan, text)]
    holes = data.draw(st.sets(st.integers(0, max(len(rows) - 1, 0)), max_size=most_holes))
    return [row for number, row in enumerate(rows) if number not in holes]


@examples(150)
@given(models(unit_tokens=1), st.lists(TEXTS, max_size=4), TEXTS, st.data())
def test_a_draft_hits_all_of_which_the_next_token_agrees(
    plan: Plan, texts: list[str], text: str, data: st.DataObject
) -> None:
    """With a hash for every token, whatever the block: what is found is all that could be used."""
    rows = rows_left(plan, texts, data, most_holes=3)
    assert look_up(plan, rows, text).num_tokens == longest(plan, rows, text, beyond=1)


@examples(150)
@given(st.integers(1, 4).flatmap(models), st.lists(TEXTS, max_size=4), TEXTS, st.data())
def test_with_coarser_hashes_the_next_unit_has_to_agree_and_no_slot_is_anothers(
    plan: Plan, texts: list[str], text: str, data: st.DataObject
) -> None:
    rows = rows_left(plan, texts, data, most_holes=3)
    hit = look_up(plan, rows, text)
    hashed = text[: len(text) // plan.hash_tokens * plan.hash_tokens]
    assert hit.num_tokens == longest(plan, rows, hashed, beyond=plan.hash_tokens)
    for kind_hit in hit.kinds:
        for first in kind_hit.rows:
            assert text.startswith(rows[first // 4].tokens), "a slot depends on another's token"


@examples(100)
@given(st.integers(1, 4), st.integers(1, 8), st.lists(TEXTS, min_size=1, max_size=3), TEXTS)
def test_a_draft_gives_up_one_hash_unit_at_most(
    unit_tokens: int, num_units: int, texts: list[str], text: str
) -> None:
    """Against what the next token alone would allow; never a block."""
    plan = plan_of([draft(32, num_units * unit_tokens), attention(16, unit_tokens)])
    plan = replace(plan, hash_tokens=unit_tokens)
    rows = [row for one in texts for row in written(plan, one)]
    ideal = longest(plan, rows_of_next_token(plan, texts), text, beyond=1)
    assume(ideal)
    block_tokens = num_units * unit_tokens
    least = (ideal + 1 - unit_tokens) // block_tokens * block_tokens
    assert ideal >= look_up(plan, rows, text).num_tokens >= least


def rows_of_next_token(plan: Plan, texts: list[str]) -> list[Written]:
    """What requests leave if a row needs no more than the token after it."""
    finest = replace(plan, hash_tokens=1)
    return [row for text in texts for row in written(finest, text)]


def draft_kind(plan: Plan) -> KindId:
    return next(kind for kind in kind_ids(plan) if plan.spec_of_kind(kind).is_draft)


def kind_ids(plan: Plan) -> list[KindId]:
    return [KindId(index) for index in range(len(plan.kinds))]


class TestDraftModels:
    """C05: one hash unit is dropped, in the draft's own group only."""

    PROMPT = 2_528

    def hits(self, *groups: GroupSpec, hash_tokens: int = 16) -> list[int]:
        """The prompt is sent four times; what has a name at the end of each is kept."""
        plan = replace(plan_of(list(groups)), hash_tokens=hash_tokens)
        names = hashes("x" * (self.PROMPT // hash_tokens))
        keys: set[Key] = set()
        found = []
        for _ in range(4):
            found.append(find(plan, keys, names, self.PROMPT - 1).num_tokens)
            for kind in kind_ids(plan):
                keys |= {(kind, name) for name in self.names_of(plan, kind, names)}
        return found

    def names_of(self, plan: Plan, kind: KindId, names: list[BlockHash]) -> list[BlockHash]:
        spec = plan.spec_of_kind(kind)
        at_each = [reference.name_at(plan, spec, names, at) for at in range(len(names))]
        return [name for name in at_each if name is not None]

    @pytest.mark.parametrize("draft_block", [16, 64, 128, 896])
    def test_coarse_states_leave_room_for_the_drop(self, draft_block: int) -> None:
        groups = attention(16, 16), draft(32, draft_block), states(48, 896)
        assert self.hits(*groups) == [0, *[1_792] * 3]

    def test_three_groups_of_coarse_blocks_lose_one_unit_and_not_a_block(self) -> None:
        groups = attention(16, 896), draft(32, 896), states(48, 896)
        assert self.hits(*groups) == [0, *[1_792] * 3]

    def test_where_a_unit_is_a_block_the_drop_is_a_block(self) -> None:
        """The negative control: that is what makes the difference."""
        groups = attention(16, 896), draft(32, 896), states(48, 896)
        assert self.hits(*groups, hash_tokens=896) == [0, *[896] * 3]

    def test_fine_states_cost_one_unit(self) -> None:
        assert self.hits(attention(16, 16), draft(32, 16), states(48, 16)) == [0, *[2_496] * 3]

    def test_no_draft_no_drop(self) -> None:
        assert self.hits(attention(16, 16), states(48, 16)) == [0, *[2_512] * 3]

    def test_a_draft_that_slides_drops_one_unit_too(self) -> None:
        groups = attention(16, 16), window(32, 1_024, 16, is_draft=True), states(48, 16)
        assert self.hits(*groups) == [0, *[2_496] * 3]

    @pytest.mark.parametrize("others", [[attention(16)], [attention(16), states(48)]])
    def test_the_other_groups_are_hit_as_far_as_they_reach(self, others: list[GroupSpec]) -> None:
        """The draft's rows are found up to one unit before the end of what agrees."""
        plan = plan_of([*others, draft(32)])
        names = hashes("abcdefgh")
        kind = draft_kind(plan)
        rest = {(other, name) for other in kind_ids(plan) for name in names if other != kind}
        for length in range(2, 7):
            mine = {(kind, name) for name in self.names_of(plan, kind, names[:length])}
            assert find(plan, mine | rest, names, 8).num_tokens == length - 1

    def test_a_draft_that_reads_nothing_gives_up_nothing(self) -> None:
        """At a chunk's end there is no slot that the next token could have made another."""
        plan = plan_of([attention(16), chunks(32, 4, is_draft=True)])
        keys = {(KindId(0), name) for name in hashes("abcdefgh")}
        assert find(plan, keys, hashes("abcdefgh"), 8).num_tokens == 8

    def test_nobody_finds_the_row_of_who_went_on_otherwise(self) -> None:
        """Two prompts part behind a block that both have: each goes on from its own."""
        plan = plan_of([draft(16)])
        ours, theirs = hashes("aab"), hashes("aac")
        index = PrefixIndex(1)
        for number, names in enumerate((theirs, ours)):
            rows = [BlockId(10 * number + place + 1) for place in range(2)]
            index.insert(KindId(0), names[1:], rows)
        found = Coordinator(plan).longest_hit(index, hashes("aabb"), 4)
        assert list(found.kinds[0].rows) == [BlockId(1), BlockId(12)]

    def test_a_junction_is_where_somebody_who_parts_there_can_resume(self) -> None:
        """The others have six blocks and the draft nothing: who parts there resumes at five."""
        plan = plan_of([attention(16), draft(32), states(48)])
        others = [kind for kind in kind_ids(plan) if kind != draft_kind(plan)]
        names = hashes("abcdefgh")
        keys = {(kind, name) for kind in others for name in names[:6]}
        hit = find(plan, keys, names, 8)
        assert (hit.num_tokens, hit.longest_tokens) == (0, 5)
