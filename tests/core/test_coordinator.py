"""The longest hit, for models of any mixture of kinds, against brute force over all prefixes."""

import math
from collections.abc import Callable, Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvquarry_core.coordinator import Coordinator, Hit
from kvquarry_core.group_rules import Hashes, rule_for
from kvquarry_core.ids import BlockHash, BlockId, KindId
from kvquarry_core.plan import GroupSpec, Plan, make_plan
from kvquarry_core.prefix_index import PrefixIndex
from tests.core import reference
from tests.core.small_pools import (
    attention,
    chunks,
    cross,
    draft,
    hashes,
    scratch,
    states,
    window,
)
from tests.strategies import examples

Key = tuple[KindId, BlockHash]


def plan_of(groups: list[GroupSpec]) -> Plan:
    """A plan for the groups; its memory does not matter here."""
    return make_plan(groups, 1_000_000)


def filled(plan: Plan, keys: Iterable[Key]) -> PrefixIndex:
    """An index with one row for every key."""
    index = PrefixIndex(len(plan.kinds))
    for number, (kind, block_hash) in enumerate(keys, start=1):
        row = [BlockId(number) for _ in plan.kinds[kind]]
        index.insert(kind, [block_hash], row)
    return index


@examples(200)
@given(st.text("ab", max_size=24), st.sets(st.integers(0, 24)), st.integers(0, 60), st.data())
def test_a_model_of_one_kind_finds_the_same_by_the_short_way(
    prompt: str, held: set[int], max_tokens: int, data: st.DataObject
) -> None:
    specs = [attention(16, 2), draft(16, 2), window(16, 5, 2), chunks(16, 6, 2), states(48, 2)]
    plan = plan_of([data.draw(st.sampled_from(specs))])
    names = hashes(prompt)
    index = filled(plan, {(KindId(0), name) for place, name in enumerate(names) if place in held})
    coordinator = Coordinator(plan)
    short, general = (
        way(index, names, max_tokens) for way in (coordinator.longest_hit, coordinator.reconcile)
    )
    assert (short.num_tokens, short.longest_tokens) == (general.num_tokens, general.longest_tokens)
    assert [list(kind.rows) for kind in short.kinds] == [list(kind.rows) for kind in general.kinds]


@st.composite
def lookups(draw: st.DrawFn) -> tuple[Plan, set[Key], list[BlockHash], int]:
    """A model of up to four kinds, some content, a prompt, and a limit."""
    block_tokens = st.sampled_from([1, 2, 3, 4, 6])
    small = st.sampled_from([16, 32])
    reach = st.integers(1, 12)
    windowed = st.one_of(
        st.builds(window, small, reach, block_tokens, is_draft=st.booleans()),
        st.builds(chunks, small, reach, block_tokens, is_draft=st.booleans()),
    )
    full = st.one_of(
        st.builds(attention, small, block_tokens), st.builds(draft, small, block_tokens)
    )
    others = st.one_of(
        st.builds(states, st.sampled_from([48, 80]), block_tokens),
        st.builds(scratch, small, st.sampled_from([1, 5])),
    )
    specs = draw(st.lists(st.one_of(windowed, full, others), min_size=1, max_size=4))
    plan = plan_of(specs + specs[:1])
    names = hashes(draw(st.text("ab", max_size=24)))
    # Mostly whole prefixes, so that hits are long, with holes.
    keys: set[Key] = set()
    for index in range(len(plan.kinds)):
        length = draw(st.integers(0, len(names)))
        holes = draw(st.sets(st.integers(0, 24), max_size=3))
        keys |= {(KindId(index), n) for i, n in enumerate(names[:length]) if i not in holes}
    return plan, keys, names, draw(st.integers(0, 24 * plan.hash_tokens))


def find(plan: Plan, keys: set[Key], names: list[BlockHash], max_tokens: int) -> Hit:
    """The coordinator's answer."""
    return Coordinator(plan).longest_hit(filled(plan, keys), names, max_tokens)


@examples(1000)
@given(lookups())
def test_the_hit_is_the_longest_prefix_that_all_kinds_have(
    case: tuple[Plan, set[Key], list[BlockHash], int],
) -> None:
    hit = find(*case)
    plan, keys, names, max_tokens = case
    assert hit.num_tokens == reference.longest_hit(plan, keys, names, max_tokens)


@examples(300)
@given(lookups())
def test_the_hit_is_no_longer_than_that_of_any_kind(
    case: tuple[Plan, set[Key], list[BlockHash], int],
) -> None:
    """C08: the reconciled hit must not exceed the shortest safe one."""
    hit = find(*case)
    plan, keys, names, max_tokens = case
    index = filled(plan, keys)
    for number in range(len(plan.kinds)):
        kind, spec = KindId(number), plan.spec_of_kind(KindId(number))
        if not spec.may_be_hit:
            continue
        most_hashes = max_tokens // plan.hash_tokens
        units, num_beyond = spec.block_tokens // plan.hash_tokens, spec.num_hashes_beyond
        view = Hashes(names, units, most_hashes, num_beyond)
        own = rule_for(spec).longest_hit(index, kind, view, max_tokens)
        assert hit.num_tokens <= own.num_tokens <= max_tokens


@examples(300)
@given(lookups())
def test_a_hit_names_the_rows_of_its_own_prefix_and_no_others(
    case: tuple[Plan, set[Key], list[BlockHash], int],
) -> None:
    hit = find(*case)
    plan, keys, names, _ = case
    names_of = {
        (one.kind, one.row[0]): (one.kind, one.block_hash)
        for kind in range(len(plan.kinds))
        for one in filled(plan, keys).commitments(KindId(kind))
    }
    for number, kind_hit in enumerate(hit.kinds):
        spec = plan.spec_of_kind(KindId(number))
        positions = reference.positions_read(spec, hit.num_tokens)
        expected = [(number, reference.name_at(plan, spec, names, at)) for at in positions]
        assert [names_of[KindId(number), first] for first in kind_hit.rows] == expected
        assert kind_hit.num_tokens == hit.num_tokens


@examples(300)
@given(lookups())
def test_the_longest_prefix_of_a_kind_is_at_least_the_hit_and_really_there(
    case: tuple[Plan, set[Key], list[BlockHash], int],
) -> None:
    """And a hit may end there; beside a draft, the others have one unit more."""
    hit = find(*case)
    plan, keys, names, max_tokens = case
    assert hit.num_tokens <= hit.longest_tokens <= max_tokens
    names = names[: max_tokens // plan.hash_tokens]
    align = math.lcm(*(spec.block_tokens for spec in plan.groups if spec.may_be_hit))
    has_draft = any(spec.is_draft for spec in plan.groups)
    found = {
        max(num_tokens - plan.hash_tokens * (has_draft and not spec.is_draft), 0) // align * align
        for num_tokens in range(max_tokens + 1)
        for kind, spec in enumerate(map(plan.spec_of_kind, map(KindId, range(len(plan.kinds)))))
        if spec.may_be_hit and reference.accepts(plan, KindId(kind), keys, names, num_tokens)
    }
    assert hit.longest_tokens in {hit.num_tokens, 0, *found}


@examples(300)
@given(lookups())
def test_more_content_never_shortens_a_hit(
    case: tuple[Plan, set[Key], list[BlockHash], int],
) -> None:
    plan, keys, names, max_tokens = case
    everything = keys | {(KindId(k), name) for k in range(len(plan.kinds)) for name in names[::2]}
    assert find(plan, everything, names, max_tokens).num_tokens >= find(*case).num_tokens


def window_of_three(page_bytes: int) -> GroupSpec:
    return window(page_bytes, 3)


def chunks_of_three(page_bytes: int) -> GroupSpec:
    return chunks(page_bytes, 3)


@examples(300)
@given(st.text("ab", max_size=12), st.sets(st.integers(0, 11)), st.integers(0, 12))
@pytest.mark.parametrize("make", [attention, states, draft, window_of_three, chunks_of_three])
def test_one_kind_alone_hits_what_it_hits_beside_a_kind_that_has_everything(
    make: Callable[[int], GroupSpec], prompt: str, holes: set[int], max_tokens: int
) -> None:
    """The fast path for models of one kind gives the same answer as the long way."""
    names = hashes(prompt)
    alone = plan_of([make(16)])
    beside = plan_of([make(16), states(48)])
    mine = {(KindId(0), name) for place, name in enumerate(names) if place not in holes}
    others = {(KindId(1), name) for name in names}
    short, long = (
        find(alone, mine, names, max_tokens),
        find(beside, mine | others, names, max_tokens),
    )
    assert short.num_tokens == long.num_tokens
    assert short.kinds[0].num_tokens == long.kinds[0].num_tokens


def test_a_junction_is_the_end_of_the_attention_prefix_without_a_state() -> None:
    """Another request shares four blocks; the only state stands after the first two."""
    plan = plan_of([attention(16), states(48)])
    names = hashes("abcdef")
    keys = {(KindId(0), name) for name in names[:4]} | {(KindId(1), names[1])}
    hit = find(plan, keys, names, 6)
    assert (hit.num_tokens, hit.longest_tokens) == (2, 4)


@pytest.mark.parametrize("end", range(1, 7))
def test_a_state_at_any_boundary_within_the_limit_is_valid(end: int) -> None:
    """C07: no window and no minimum length applies to a state."""
    plan = plan_of([attention(16), states(48)])
    names = hashes("abcdef")
    keys = {(KindId(0), name) for name in names} | {(KindId(1), names[end - 1])}
    assert find(plan, keys, names, 6).num_tokens == end
    assert find(plan, keys, names, end - 1).num_tokens == 0


def test_blocks_of_several_hash_units_are_named_by_their_last_hash() -> None:
    plan = plan_of([attention(16, 2), states(48, 6)])
    assert plan.hash_tokens == 2
    names = hashes("abcdef")
    keys = {(KindId(0), name) for name in names} | {(KindId(1), names[2])}
    assert find(plan, keys, names, 12).num_tokens == 6
    wrong = {(KindId(0), name) for name in names} | {(KindId(1), names[0]), (KindId(1), names[1])}
    assert find(plan, wrong, names, 12).num_tokens == 0


def test_a_window_is_hit_where_its_own_blocks_are_though_earlier_ones_are_gone() -> None:
    """Attention has everything; of the window's blocks only the last three are left."""
    plan = plan_of([attention(16), window(16, 4)])
    names = hashes("abcdefgh")
    keys = {(KindId(0), name) for name in names} | {(KindId(1), name) for name in names[3:6]}
    index = filled(plan, keys)
    hit = Coordinator(plan).longest_hit(index, names, 8)
    assert hit.num_tokens == 6
    assert list(hit.kinds[1].rows) == [index.find(KindId(1), name) for name in names[3:6]]
    assert find(plan, keys, names, 5).num_tokens == 0, "a shorter prefix is not there"


def test_chunks_need_nothing_at_the_end_of_a_chunk() -> None:
    plan = plan_of([attention(16), chunks(16, 4)])
    names = hashes("abcdefgh")
    keys = {(KindId(0), name) for name in names[:7]}
    hit = find(plan, keys, names, 8)
    assert (hit.num_tokens, list(hit.kinds[1].rows)) == (4, [])
    keys |= {(KindId(1), name) for name in names[4:6]}
    assert find(plan, keys, names, 8).num_tokens == 6


def test_a_window_may_reject_the_length_of_a_state_and_accept_an_earlier_one() -> None:
    """Nobody objects to 2 tokens only: the window lacks what 6 needs, and has no 4."""
    plan = plan_of([attention(16), window(16, 3), states(48, 2)])
    names = hashes("abcdef")
    keys = {(KindId(0), name) for name in names}
    keys |= {(KindId(1), names[place]) for place in (0, 1, 3, 4)}
    keys |= {(KindId(2), names[place]) for place in (1, 5)}
    hit = find(plan, keys, names, 6)
    assert [hit.num_tokens, hit.longest_tokens] == [2, 6]


@pytest.mark.parametrize("with_hashes", ["abcdef", ""])
def test_what_an_encoder_made_is_named_by_no_hash(with_hashes: str) -> None:
    plan = plan_of([attention(16), cross(16)])
    names = hashes(with_hashes)
    keys = {(KindId(kind), name) for kind in (0, 1) for name in names}
    assert find(plan, keys, names, 6) == Coordinator(plan).no_hit


def test_scratch_alone_holds_nothing_that_could_be_hit() -> None:
    plan = plan_of([scratch(16)])
    assert find(plan, set(), hashes("abc"), 3).num_tokens == 0
