"""Which lengths later requests are expected to resume at."""

from hypothesis import given
from hypothesis import strategies as st

from kvquarry_core.retention import Retention
from tests.strategies import examples


@examples(200)
@given(
    align=st.sampled_from([1, 4, 6]),
    interval=st.sampled_from([None, 0, 4, 9, 24]),
    boundaries=st.lists(st.integers(0, 90), max_size=2),
    least=st.integers(1, 60),
    more=st.integers(0, 60),
)
def test_the_lengths_kept_are_those_of_which_it_says_so_one_by_one(
    align: int, interval: int | None, boundaries: list[int], least: int, more: int
) -> None:
    retention = Retention(align, interval)
    aligned = [n for n in range(least, least + more + 1) if n % align == 0]
    expected = [n for n in aligned if retention.keeps(n, boundaries)]
    assert retention.lengths_kept(least, least + more, boundaries) == expected
