"""What a request gives up leaves its record, whether one block goes or many."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from kvquarry_core.ids import BlockId, GroupId
from kvquarry_core.requests import RequestRecord
from tests.strategies import examples

GROUP = GroupId(1)
BLOCKS = st.lists(st.integers(1, 6).map(BlockId), max_size=6)


def record_of(held: list[BlockId], settled: int) -> RequestRecord:
    record = RequestRecord.empty(2)
    record.held[GROUP] = list(held)
    record.settled = [0, settled]
    return record


@examples(300)
@given(BLOCKS, BLOCKS, st.data())
def test_what_is_held_goes_and_takes_its_place_along(
    held: list[BlockId], blocks: list[BlockId], data: st.DataObject
) -> None:
    settled = data.draw(st.integers(0, len(held)))
    record = record_of(held, settled)
    missing = record.missing(GROUP, blocks)
    is_held = Counter(blocks) <= Counter(held)
    assert (missing is None) == is_held
    assert (record.remove(GROUP, blocks) is None) == is_held

    rest, num_settled = list(held), settled
    for block in blocks if is_held else ():
        place = rest.index(block)
        del rest[place]
        num_settled -= place < num_settled
    assert (record.held[GROUP], record.settled[GROUP]) == (rest, num_settled)


def test_a_block_that_is_missing_is_named() -> None:
    record = record_of([BlockId(1), BlockId(2)], 0)
    assert record.missing(GROUP, [BlockId(3)]) == 3
    assert record.missing(GROUP, [BlockId(1), BlockId(1)]) == 1
    assert record.remove(GROUP, [BlockId(3)]) == 3
    assert record.held[GROUP] == [1, 2]
