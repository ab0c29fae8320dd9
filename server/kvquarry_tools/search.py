"""Where something that holds for small numbers ends: found by doubling, then by halving."""

from collections.abc import Callable

#: Down to neighbours.
EXACT = 1 << 62


def bracket(
    holds: Callable[[int], bool], low: int, no_end: int, *, fineness: int = EXACT
) -> tuple[int, int] | None:
    """Two numbers, of which the lower holds and the higher does not; None where no end is in sight.

    Args:
        holds: Whether a number does; whatever is below one that does, does too.
        low: One that is known to.
        no_end: Beyond this nobody looks.
        fineness: They lie apart by one part of the higher in so many, or by one.
    """
    high = max(2 * low, 1)
    while holds(high):
        low, high = high, 2 * high
        if high > no_end:
            return None
    while high - low > max(high // fineness, 1):
        middle = (low + high) // 2
        if holds(middle):
            low = middle
        else:
            high = middle
    return low, high
