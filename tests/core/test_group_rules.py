"""How many blocks each kind needs and which it reads, against counting tokens one by one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvquarry_core.errors import PlanError, Reason
from kvquarry_core.group_rules import rule_for, window_of
from kvquarry_core.plan import GroupKind, GroupSpec, make_plan
from tests.core import reference
from tests.core.small_pools import attention, cross, draft, scratch, states
from tests.strategies import MAY_BE_DRAFT, WINDOWED, examples, group_specs

WINDOWS = st.builds(
    GroupSpec,
    kind=st.sampled_from(WINDOWED),
    block_tokens=st.sampled_from([1, 2, 3, 4, 8]),
    page_bytes=st.just(16),
    num_layers=st.just(1),
    window_tokens=st.integers(1, 20),
)
SPECS = group_specs(st.just(16), st.sampled_from([1, 2, 3, 4, 16]))


@examples(200)
@given(WINDOWS, st.integers(0, 60))
def test_a_window_begins_where_the_next_token_begins_to_read(spec: GroupSpec, n: int) -> None:
    rule = window_of(spec)
    assert rule is not None
    read_or_written = [*reference.positions_read(spec, n), n // spec.block_tokens]
    assert rule.first_position(n) == read_or_written[0]


@examples(200)
@given(WINDOWS, st.integers(0, 60))
def test_a_position_is_read_until_its_last_token_left_the_window(spec: GroupSpec, p: int) -> None:
    rule = window_of(spec)
    assert rule is not None
    last = rule.last_tokens(p)
    assert rule.first_position(last) <= p < rule.first_position(last + 1)


def test_what_is_not_windowed_has_no_window() -> None:
    others = [attention(16), draft(16), states(16), cross(16), scratch(16)]
    assert [window_of(spec) for spec in others] == [None] * len(others)


@examples(300)
@given(SPECS, st.integers(0, 8), st.integers(0, 200))
def test_a_chunk_takes_the_blocks_that_its_tokens_lie_in(
    spec: GroupSpec, hit_blocks: int, num_tokens: int
) -> None:
    hit_tokens = hit_blocks * spec.block_tokens
    if spec.kind is GroupKind.CROSS_ATTENTION:
        hit_tokens = 0
    plan = make_plan([spec], 100_000)
    expected = reference.new_blocks(plan, hit_tokens, num_tokens, encoder_tokens=num_tokens)
    assert rule_for(spec).num_new_blocks(hit_tokens, num_tokens) == expected[0]


def most_ever_held(spec: GroupSpec, hit_tokens: int, num_tokens: int, in_flight: int) -> int:
    """New blocks on the way from a hit, whatever the chunks, with steps in flight."""
    first_new = hit_tokens // spec.block_tokens
    held = [
        {
            *reference.positions_read(spec, processed),
            *reference.positions_written(spec, processed, min(processed + in_flight, num_tokens)),
        }
        for processed in range(hit_tokens, num_tokens)
    ]
    return max(len({position for position in one if position >= first_new}) for one in held)


@examples(300)
@given(WINDOWS, st.integers(0, 4), st.integers(1, 60), st.integers(1, 20))
def test_what_is_admitted_as_a_whole_never_holds_more(
    spec: GroupSpec, hit_blocks: int, more_tokens: int, in_flight: int
) -> None:
    """C16: the sum for the whole request is never below what it comes to hold."""
    hit_tokens = hit_blocks * spec.block_tokens
    num_tokens = hit_tokens + more_tokens
    answer = rule_for(spec).most_new_blocks(hit_tokens, num_tokens, in_flight)
    assert most_ever_held(spec, hit_tokens, num_tokens, in_flight) <= answer


@examples(100)
@given(WINDOWS, st.integers(1, 20))
def test_a_long_request_comes_to_hold_all_that_was_asked_for(
    spec: GroupSpec, in_flight: int
) -> None:
    num_tokens = 2 * spec.window_tokens * spec.block_tokens + in_flight
    answer = rule_for(spec).most_new_blocks(0, num_tokens, in_flight)
    assert most_ever_held(spec, 0, num_tokens, in_flight) == answer


@pytest.mark.parametrize("kind", WINDOWED)
def test_a_long_request_takes_no_more_of_a_window_than_a_shorter_one(kind: GroupKind) -> None:
    """A window of 1,024 and steps of 2,048 tokens, blocks of 16: no more than 193 at once."""
    spec = GroupSpec(kind, 16, 16, 1, window_tokens=1_024)
    rule = rule_for(spec)
    most = rule.most_new_blocks(0, 100_000, 2_048)
    assert most == rule.most_new_blocks(0, 10_000, 2_048)
    assert most == {GroupKind.SLIDING_WINDOW: 193, GroupKind.CHUNKED_LOCAL: 192}[kind]


def test_kinds_that_do_not_grow_take_the_same_for_any_length() -> None:
    for spec in (states(16, 2, 1), scratch(16, 2), cross(16, 2)):
        rule = rule_for(spec)
        assert not rule.grows
        length = 9 if rule.is_of_encoder else 100
        assert rule.num_held_blocks(50, length) == rule.most_new_blocks(0, length, 10)
    assert rule_for(states(16, 2, 1)).most_new_blocks(0, 100, 10) == 2
    assert rule_for(scratch(16, 2)).most_new_blocks(0, 100, 10) == 1
    assert rule_for(cross(16, 2)).most_new_blocks(0, 9, 10) == 5


@pytest.mark.parametrize("kind", GroupKind)
def test_a_window_is_asked_of_those_kinds_that_have_one(kind: GroupKind) -> None:
    wrong = GroupSpec(kind, 16, 16, 1, window_tokens=0 if kind in WINDOWED else 8)
    with pytest.raises(PlanError, match="window") as caught:
        make_plan([wrong], 10_000)
    assert caught.value.reason is Reason.INVALID_GROUPS


@pytest.mark.parametrize("kind", sorted(set(GroupKind) - set(MAY_BE_DRAFT), key=str))
def test_a_draft_model_has_attention_only(kind: GroupKind) -> None:
    with pytest.raises(PlanError, match="draft"):
        make_plan([GroupSpec(kind, 16, 16, 1, is_draft=True)], 10_000)
