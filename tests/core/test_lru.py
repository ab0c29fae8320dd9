"""The recency list against a plain list."""

import tracemalloc
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvquarry_core.lru import LEVEL_STAMP, OLDEST_STAMP, RecencyList
from tests.strategies import examples

SIZE = 6


@examples(200)
@given(st.lists(st.integers(0, SIZE - 1), max_size=60))
def test_members_stand_in_the_order_they_were_pushed(toggles: list[int]) -> None:
    """Each member goes in where it is out, and out where it is in, wherever it stands."""
    recency, plain = RecencyList[int](SIZE), list[int]()
    stamps: dict[int, int] = {}
    for stamp, member in enumerate(toggles):
        if member in plain:
            recency.remove(member)
            plain.remove(member)
        else:
            recency.push(member, stamp)
            plain.append(member)
            stamps[member] = stamp
        assert list(recency) == plain
        assert len(recency) == len(plain)
        assert recency.oldest() == (plain[0] if plain else None)
        assert [one in recency for one in range(SIZE)] == [one in plain for one in range(SIZE)]
        assert all(recency.stamp_of(one) == stamps[one] for one in plain)


@examples(200)
@given(st.lists(st.lists(st.integers(0, SIZE - 1), unique=True), max_size=12))
def test_many_go_in_and_out_at_once_as_they_would_one_by_one(groups: list[list[int]]) -> None:
    """Of each group, those that are out go in, then those that were in go out, in its order."""
    recency, plain = RecencyList[int](SIZE), list[int]()
    for stamp, group in enumerate(groups):
        leaving = [member for member in group if member in plain]
        coming = [member for member in group if member not in plain]
        recency.push_all(coming, stamp)
        recency.remove_all(leaving)
        plain = [member for member in plain + coming if member not in leaving]
        assert list(recency) == plain
        assert len(recency) == len(plain)
        assert recency.oldest() == (plain[0] if plain else None)
        assert [one in recency for one in range(SIZE)] == [one in plain for one in range(SIZE)]
        stamps = [recency.stamp_of(one) for one in plain]
        assert stamps == sorted(stamps)


@examples(200)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 90)), max_size=40), st.randoms())
def test_a_renamed_member_keeps_its_place_and_its_stamp(
    moves: list[tuple[int, int]], random: Random
) -> None:
    """Runs come, lose members and get others' names, those of members that left among them."""
    recency, plain = RecencyList[int](100), list[tuple[int, int]]()
    for stamp, (what, num) in enumerate(moves):
        names = [name for name, _ in plain]
        others = [name for name in range(100) if name not in names]
        if what == 0:
            coming = random.sample(others, min(num, len(others)))
            recency.push_all(coming, stamp)
            plain += [(name, stamp) for name in coming]
        elif what == 1:
            leaving = random.sample(names, min(num, len(names)))
            recency.remove_all(leaving)
            plain = [pair for pair in plain if pair[0] not in leaving]
        elif names and others:
            member, other = random.choice(names), random.choice(others)
            recency.rename(member, other)
            plain = [(other if name == member else name, since) for name, since in plain]
        assert [(name, recency.stamp_of(name)) for name in recency] == plain
        assert len(recency) == len(plain)


@examples(200)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 90)), max_size=40), st.randoms())
def test_runs_that_lose_members_keep_their_order(
    moves: list[tuple[int, int]], random: Random
) -> None:
    """Runs long and short; taken out are the oldest, the newest, any, or those of a whole run."""
    size = 300
    recency, plain, stamp = RecencyList[int](size), list[int](), 0
    stamps: dict[int, int] = {}
    for move, number in moves:
        outside = [one for one in range(size) if one not in plain]
        coming = random.sample(outside, min(number, len(outside)))
        leaving = (
            [],
            plain[:number],
            plain[: -number - 1 : -1],
            random.sample(plain, min(number, len(plain))),
        )[move]
        if leaving:
            recency.remove_all(leaving)
            plain = [one for one in plain if one not in leaving]
        else:
            recency.push_all(coming, stamp)
            stamps |= dict.fromkeys(coming, stamp)
            stamp += 1
            plain += coming
        assert list(recency) == plain
        assert len(recency) == len(plain)
        assert recency.oldest() == (plain[0] if plain else None)
        assert [recency.stamp_of(one) for one in plain] == [stamps[one] for one in plain]
        assert {one for one in range(size) if one in recency} == set(plain)


@examples(200)
@given(st.lists(st.tuples(st.integers(0, SIZE - 1), st.integers(0, 3)), max_size=60))
def test_a_lower_level_stands_before_a_higher_one(toggles: list[tuple[int, int]]) -> None:
    """And within a level the order is that of the pushes; stamps say the same."""
    recency, levels = RecencyList[int](SIZE, num_levels=4), [list[int]() for _ in range(4)]
    for stamp, (member, level) in enumerate(toggles):
        holding = [one for one in levels if member in one]
        for one in holding:
            one.remove(member)
            recency.remove(member)
        if not holding:
            levels[level].append(member)
            recency.push(member, stamp, level)
        plain = [one for members in levels for one in members]
        assert list(recency) == plain
        assert recency.oldest() == (plain[0] if plain else None)
        stamps = [recency.stamp_of(one) for one in plain]
        assert stamps == sorted(set(stamps))
        assert [one // LEVEL_STAMP for one in stamps] == [
            number for number, members in enumerate(levels) for _ in members
        ]


MIDDLE, END = slice(100, 300), slice(301, 500)


@pytest.mark.parametrize("leaving", [(MIDDLE, END), (END, MIDDLE)], ids=["end last", "end first"])
def test_what_left_a_run_takes_no_memory(leaving: tuple[slice, slice]) -> None:
    """Of each of many runs a fifth stays: some 32 bytes a member, not those of 500."""
    num_runs = 40
    recency = RecencyList[int](num_runs * 500)
    tracemalloc.start()
    for number in range(num_runs):
        members = list(range(number * 500, (number + 1) * 500))
        recency.push_all(members, number)
        for gone in leaving:
            recency.remove_all(members[gone][::-1])
    taken_bytes, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(recency) == num_runs * 101
    # The members themselves are ints of 32 bytes.
    assert taken_bytes < 100 * len(recency)


def test_a_member_is_pushed_once() -> None:
    recency = RecencyList[int](SIZE)
    recency.push(3, 0)
    with pytest.raises(AssertionError, match="is in the list already"):
        recency.push(3, 1)
    assert list(recency) == [3]


def test_only_a_member_can_be_removed() -> None:
    recency = RecencyList[int](SIZE)
    recency.push(3, 0)
    with pytest.raises(AssertionError, match="2 is not in the list"):
        recency.remove(2)
    assert list(recency) == [3]


def test_a_list_for_no_members_is_empty() -> None:
    recency = RecencyList[int](0)
    assert list(recency) == []
    assert recency.oldest() is None


def test_what_goes_first_is_older_than_all_that_was_there() -> None:
    recency = RecencyList[int](SIZE)
    recency.push_all([3, 1], stamp=1)
    recency.push_all_oldest([5, 2])
    assert list(recency) == [2, 5, 3, 1]
    assert [recency.stamp_of(one) for one in recency] == [OLDEST_STAMP, OLDEST_STAMP, 1, 1]
    recency.remove_all([5, 1])
    recency.push(5, 3)
    assert list(recency) == [2, 3, 5]
    assert len(recency) == 3


def test_what_goes_first_goes_before_every_level() -> None:
    recency = RecencyList[int](SIZE, num_levels=2)
    recency.push(3, 1, level=1)
    recency.push(1, 2, level=0)
    recency.push_oldest(5)
    assert list(recency) == [5, 1, 3]


def test_what_goes_first_may_be_all_there_is() -> None:
    recency = RecencyList[int](SIZE)
    recency.push_oldest(4)
    assert recency.oldest() == 4
    recency.push(0, 1)
    assert list(recency) == [4, 0]
