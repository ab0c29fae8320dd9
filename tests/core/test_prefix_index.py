"""The prefix index against a plain dict of lists; equal rows are twins, and the older is found."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvquarry_core.ids import BlockHash, BlockId, KindId
from kvquarry_core.prefix_index import Commitment, PrefixIndex
from tests.strategies import examples

KINDS = [KindId(0), KindId(1)]
NAMES = [BlockHash(b"x"), BlockHash(b"y")]


def committed(kind: int, name: bytes, *blocks: int) -> Commitment:
    """A commitment of one row."""
    return Commitment(KindId(kind), BlockHash(name), tuple(map(BlockId, blocks)))


@examples(300)
@given(st.lists(st.tuples(st.sampled_from(KINDS), st.sampled_from(NAMES), st.integers(0, 9))))
def test_the_oldest_row_that_is_left_is_found(
    steps: list[tuple[KindId, BlockHash, int]],
) -> None:
    """A small number removes that row where there is one; any other inserts a row."""
    index = PrefixIndex(len(KINDS))
    plain: dict[tuple[KindId, BlockHash], list[Commitment]] = {}
    for block, (kind, name, number) in enumerate(steps):
        rows = plain.setdefault((kind, name), [])
        if number < len(rows):
            index.remove(rows.pop(number))
        else:
            rows.append(Commitment(kind, name, (BlockId(block),)))
            index.insert(rows[-1])
        for one in KINDS:
            for other in NAMES:
                left = plain.get((one, other), [])
                assert index.find(one, other) is (left[0] if left else None)
            in_plain = {id(row) for key, rows in plain.items() if key[0] == one for row in rows}
            assert {id(row) for row in index.commitments(one)} == in_plain
            assert len(index.commitments(one)) == len(in_plain)


def test_equal_hashes_of_different_kinds_are_different_content() -> None:
    index = PrefixIndex(2)
    first, second = committed(0, b"x", 1), committed(1, b"x", 2)
    index.insert(first)
    index.insert(second)
    assert index.find(KindId(0), NAMES[0]) is first
    index.remove(first)
    assert index.find(KindId(0), NAMES[0]) is None
    assert index.find(KindId(1), NAMES[0]) is second


def test_a_twin_takes_the_place_of_the_row_that_went() -> None:
    index = PrefixIndex(1)
    twins = [committed(0, b"x", block) for block in (5, 6, 7)]
    for twin in twins:
        index.insert(twin)
    index.remove(twins[1])
    assert index.find(KindId(0), NAMES[0]) is twins[0]
    index.remove(twins[0])
    assert index.find(KindId(0), NAMES[0]) is twins[2]
    index.remove(twins[2])
    assert index.find(KindId(0), NAMES[0]) is None
    assert index.commitments(KindId(0)) == []


def test_rows_with_equal_blocks_are_told_apart() -> None:
    """The same blocks committed twice under one hash are two entries; each goes by itself."""
    index = PrefixIndex(1)
    one, other = committed(0, b"x", 5), committed(0, b"x", 5)
    index.insert(one)
    index.insert(other)
    index.remove(other)
    assert index.find(KindId(0), NAMES[0]) is one


def test_what_was_never_inserted_cannot_be_removed() -> None:
    index = PrefixIndex(1)
    index.insert(committed(0, b"x", 5))
    with pytest.raises(AssertionError):
        index.remove(committed(0, b"x", 5))
