"""Whose answer depends on a commit: whoever has the name, where it is known to stand."""

import pytest

from kvquarry_client.wire.bearing import Bearing
from kvquarry_core.ids import BlockHash

TEXT = [BlockHash(b"a"), BlockHash(b"b"), BlockHash(b"c")]


@pytest.mark.parametrize(
    ("name", "place", "bears"),
    [
        (b"b", None, True),
        (b"b", 1, True),
        (b"b", 2, False),
        (b"b", 3, False),
        (b"x", None, False),
        (b"x", 1, False),
    ],
)
def test_a_commit_bears_on_who_has_its_first_name(
    *, name: bytes, place: int | None, bears: bool
) -> None:
    bearing = Bearing()
    bearing.note(4, BlockHash(name), place)
    assert bearing.num_before([[], TEXT]) == (5 if bears else 0)
    assert bearing.num_before([]) == 0


def test_what_bears_on_all_bears_on_asks_without_a_text() -> None:
    bearing = Bearing()
    bearing.note(2)
    assert bearing.num_before([]) == 3


def test_each_part_keeps_its_own() -> None:
    bearing = Bearing()
    bearing.note(1)
    bearing.note(3, TEXT[0], 0)
    before, behind = bearing.cut(2)
    assert before.num_before([TEXT]) == 2
    assert behind.num_before([TEXT]) == 2
    assert behind.num_before([TEXT[1:]]) == 0
