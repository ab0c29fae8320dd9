"""Amounts of memory are read as users write them and shown in few digits."""

import pytest

from kvquarry_tools.errors import InvalidOption
from kvquarry_tools.planning.sizes import memory, parse_memory


@pytest.mark.parametrize(
    ("text", "num_bytes"),
    [
        ("20GiB", 20 * 2**30),
        ("20 gib", 20 * 2**30),
        ("1.5MiB", 3 * 2**19),
        ("80GB", 80 * 10**9),
        ("4096", 4096),
        ("7B", 7),
    ],
)
def test_amounts_are_read_with_and_without_units(text: str, num_bytes: int) -> None:
    assert parse_memory(text) == num_bytes


@pytest.mark.parametrize(
    "text", ["", "GiB", "-1GiB", "1e9", "20G iB", "nan", "0MiB", "0.1B", "2000TiB"]
)
def test_what_is_no_amount_is_refused(text: str) -> None:
    with pytest.raises(InvalidOption):
        parse_memory(text)


@pytest.mark.parametrize(
    ("num_bytes", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.00 KiB"),
        (20 * 2**30, "20.0 GiB"),
        (999 * 2**20, "999.0 MiB"),
        (1000 * 2**20, "0.98 GiB"),
        (5000 * 2**40, "5000.0 TiB"),
    ],
)
def test_amounts_are_shown_in_the_unit_that_fits(num_bytes: int, text: str) -> None:
    assert memory(num_bytes) == text
