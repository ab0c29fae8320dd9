"""The prefix index against a plain dict of lists; equal rows are twins, and the older is found."""

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvquarry_core.errors import BrokenLaw
from kvquarry_core.ids import BlockHash, BlockId, KindId
from kvquarry_core.prefix_index import Commitment, PrefixIndex, Rows
from tests.strategies import examples

KINDS = [KindId(0), KindId(1)]
NAMES = [BlockHash(b"x"), BlockHash(b"y")]


def committed(kind: int, name: bytes, *blocks: int) -> Commitment:
    """A commitment of one row."""
    return Commitment(KindId(kind), BlockHash(name), tuple(map(BlockId, blocks)))


def insert(index: PrefixIndex, row: Commitment) -> None:
    """Insert one row."""
    index.insert(row.kind, [row.block_hash], list(row.row))


def remove(index: PrefixIndex, row: Commitment) -> None:
    """Remove one row."""
    index.remove(Rows(row.kind, [row.block_hash], list(row.row)))


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
            remove(index, rows.pop(number))
        else:
            # Rows of the first kind are of one block, those of the second of two.
            blocks = (2 * block, 2 * block + 1)[: kind + 1]
            rows.append(committed(kind, name, *blocks))
            insert(index, rows[-1])
        for one in KINDS:
            for other in NAMES:
                left = plain.get((one, other), [])
                assert index.find(one, other) == (left[0].row[0] if left else None)
                for row in left:
                    assert index.row(one, row.row[0]) == row.row
                    assert index.row_with(one, other, row.row[-1]) == row.row
            in_plain = [row for key, rows in plain.items() if key[0] == one for row in rows]
            assert set(index.commitments(one)) == set(in_plain)
            assert len(index.commitments(one)) == len(in_plain)


def test_equal_hashes_of_different_kinds_are_different_content() -> None:
    index = PrefixIndex(2)
    first, second = committed(0, b"x", 1), committed(1, b"x", 2)
    insert(index, first)
    insert(index, second)
    assert index.find(KindId(0), NAMES[0]) == 1
    remove(index, first)
    assert index.find(KindId(0), NAMES[0]) is None
    assert index.find(KindId(1), NAMES[0]) == 2


def test_a_twin_takes_the_place_of_the_row_that_went() -> None:
    index = PrefixIndex(1)
    twins = [committed(0, b"x", block) for block in (5, 6, 7)]
    for twin in twins:
        insert(index, twin)
    remove(index, twins[1])
    assert index.find(KindId(0), NAMES[0]) == 5
    remove(index, twins[0])
    assert index.find(KindId(0), NAMES[0]) == 7
    remove(index, twins[2])
    assert index.find(KindId(0), NAMES[0]) is None
    assert index.commitments(KindId(0)) == []


def test_a_run_of_hashes_ends_where_the_first_one_is_missing() -> None:
    index = PrefixIndex(1)
    for name, block in ((b"x", 5), (b"z", 7)):
        insert(index, committed(0, name, block))
    names = [BlockHash(name) for name in (b"x", b"y", b"z")]
    assert index.find_leading(KindId(0), names) == [5]
    assert index.find_leading(KindId(0), names[1:]) == []


def test_rows_become_columns_one_for_each_group() -> None:
    index = PrefixIndex(2)
    rows = [committed(1, b"x", 1, 2), committed(1, b"y", 3, 4)]
    for row in rows:
        insert(index, row)
    columns = index.columns(KindId(1), [BlockId(3), BlockId(1)])
    assert [list(column) for column in columns] == [[3, 1], [4, 2]]
    assert list(index.columns(KindId(0), [])) == []


def test_what_was_never_inserted_cannot_be_removed() -> None:
    index = PrefixIndex(1)
    insert(index, committed(0, b"x", 5))
    with pytest.raises(BrokenLaw, match="is not indexed"):
        remove(index, committed(0, b"x", 6))


def test_an_index_that_forgot_everything_takes_no_memory() -> None:
    index, rows = PrefixIndex(1), [committed(0, b"%d" % block, block) for block in range(20_000)]
    tracemalloc.start()
    for row in rows:
        insert(index, row)
    full_bytes, _ = tracemalloc.get_traced_memory()
    for row in rows:
        remove(index, row)
    left_bytes, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert full_bytes > 20_000 * 24
    assert left_bytes < full_bytes // 50
