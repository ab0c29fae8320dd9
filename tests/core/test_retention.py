"""Which lengths each retention keeps, of any that it is asked about."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvquarry_core.checkpoints import Checkpoints
from kvquarry_core.errors import Reason, UnknownPolicy, UsageError
from kvquarry_core.policies import BUILT_IN, PolicyNames
from kvquarry_core.retention import ChunkEnding, EveryInterval, Interval, Landmarks, Retention
from tests.strategies import examples

#: A prompt of 100 tokens that parts from another after 40, blocks of 16.
LANDMARKS = Landmarks((99,), (40,)).aligned(16)

lengths_asked = st.builds(
    lambda unit, first, count: range(first * unit, (first + count) * unit, unit),
    st.sampled_from([1, 4, 6]),
    st.integers(1, 15),
    st.integers(0, 15),
)


def retention(name: str) -> Retention:
    made = BUILT_IN.make_retention(name)
    assert made is not None
    return made


@pytest.mark.parametrize(
    ("name", "kept"),
    [
        ("dense", [16, 32, 48, 64, 80, 96, 112]),
        ("boundaries", [32, 96]),
        ("last", [96]),
        ("every-48", [32, 48, 96]),
        ("every-40", [32, 80, 96]),
        ("every-1000", [32, 96]),
    ],
)
def test_what_each_rule_keeps(name: str, kept: list[int]) -> None:
    assert list(Checkpoints(retention(name), 16).within(1, 127, LANDMARKS)) == kept


@examples(200)
@given(
    lengths=lengths_asked,
    interval=st.integers(1, 30),
    ends=st.lists(st.integers(0, 90), max_size=2),
    junctions=st.lists(st.integers(0, 90), max_size=2),
)
def test_an_interval_and_the_boundaries_are_kept(
    lengths: range, interval: int, ends: list[int], junctions: list[int]
) -> None:
    landmarks = Landmarks(tuple(ends), tuple(junctions))
    proven = {*ends, *junctions}
    expected = [one for one in lengths if one % interval == 0 or one in proven]
    for rule in (Interval(interval), EveryInterval(interval)):
        assert list(rule.kept(lengths, landmarks)) == expected


@examples(200)
@given(lengths=lengths_asked, interval=st.integers(1, 30))
def test_a_chunk_ends_at_the_first_length_of_the_interval(lengths: range, interval: int) -> None:
    wanted = [one for one in lengths if one % math.lcm(lengths.step, interval) == 0]
    end = EveryInterval(interval).first_end(lengths, Landmarks())
    assert end == (wanted[0] if wanted else None)


def test_only_a_rule_that_was_chosen_ends_chunks() -> None:
    """What the engine's own setting says is kept where chunks happen to end, as in stock vLLM."""
    assert isinstance(retention("every-48"), ChunkEnding)
    for rule in (Interval(48), *map(retention, ("dense", "boundaries", "last"))):
        assert not isinstance(rule, ChunkEnding)


def test_by_default_the_choice_is_the_engines() -> None:
    assert BUILT_IN.make_retention(PolicyNames().retention) is None


@pytest.mark.parametrize("name", ["some", "every"])
def test_a_name_that_nobody_offers_is_refused_with_those_there_are(name: str) -> None:
    match = f"there is no retention {name!r}; there are engine, dense, boundaries, last, every-N"
    with pytest.raises(UnknownPolicy, match=match) as caught:
        BUILT_IN.make(PolicyNames(retention=name))
    assert caught.value.reason is Reason.UNKNOWN_POLICY


@pytest.mark.parametrize(
    "number", ["", "N", "0", "4k", "-4", "007", "9" * 10, "9" * 5000, "\u0664"]
)
def test_a_number_that_makes_no_sense_is_refused_with_those_that_do(number: str) -> None:
    match = "N in every-N is a whole number from 1 to 999999999, without leading zeros"
    with pytest.raises(UsageError, match=match) as caught:
        BUILT_IN.make(PolicyNames(retention=f"every-{number}"))
    assert caught.value.reason is Reason.UNKNOWN_POLICY
    assert not isinstance(caught.value, UnknownPolicy)
