"""Whoever knows a moved block calls it by its new id, however often it moved."""

from kvquarry_client.renames import Renames
from kvquarry_core.ids import BlockId, ClassId, GroupId
from kvquarry_core.plan import make_plan
from kvquarry_core.relocation import Move
from tests.client.pools import HYBRID

PLAN = make_plan(HYBRID, 192 * 32)
STATE_GROUP, ATTENTION_GROUP = GroupId(0), GroupId(2)
SMALL, LARGE = ClassId(0), ClassId(1)


def move(size_class: ClassId, source: int, target: int) -> Move:
    return Move(size_class, BlockId(source), BlockId(target))


def blocks(*numbers: int) -> list[BlockId]:
    return [BlockId(number) for number in numbers]


def test_a_column_is_renamed_in_place_and_in_order() -> None:
    column = blocks(7, 3, 9)
    assert Renames(PLAN, [move(SMALL, 3, 5)]).apply(ATTENTION_GROUP, column)
    assert column == blocks(7, 5, 9)


def test_a_column_without_moved_blocks_is_left_alone() -> None:
    column = blocks(7, 9)
    assert not Renames(PLAN, [move(SMALL, 3, 5)]).apply(ATTENTION_GROUP, column)
    assert column == blocks(7, 9)


def test_equal_ids_of_another_class_are_other_blocks() -> None:
    """Block 3 of the states is not block 3 of attention."""
    column = blocks(3)
    assert not Renames(PLAN, [move(SMALL, 3, 5)]).apply(STATE_GROUP, column)
    assert column == blocks(3)


def test_moves_that_follow_on_each_other_count_as_one() -> None:
    renames = Renames(PLAN, [move(SMALL, 3, 5), move(SMALL, 5, 8)])
    assert renames.of_group(ATTENTION_GROUP, BlockId(3)) == 8


def test_an_id_that_was_left_and_taken_again_names_two_blocks() -> None:
    """First 3 goes to 5, then 9 to 3: whoever knew 9 finds it at 3, whoever knew 3 at 5."""
    renames = Renames(PLAN, [move(SMALL, 3, 5), move(SMALL, 9, 3)])
    column = blocks(3, 9)
    renames.apply(ATTENTION_GROUP, column)
    assert column == blocks(5, 3)


def test_where_a_block_was_let_go_of_another_one_may_come_and_move_on() -> None:
    """What 3 held was evicted at 5; then 9 goes to 5, and on to 8. Nobody knows 3 any more."""
    renames = Renames(PLAN, [move(SMALL, 3, 5), move(SMALL, 9, 5), move(SMALL, 5, 8)])
    column = blocks(9)
    renames.apply(ATTENTION_GROUP, column)
    assert column == blocks(8)


def test_a_row_is_renamed_group_by_group() -> None:
    renames = Renames(PLAN, [move(LARGE, 2, 6)])
    groups = (STATE_GROUP, GroupId(1))
    assert renames.row(groups, blocks(2, 4)) == (6, 4)


def test_without_moves_there_is_nothing_to_rename() -> None:
    assert not Renames(PLAN, [])
    assert Renames(PLAN, [move(LARGE, 2, 6)])
