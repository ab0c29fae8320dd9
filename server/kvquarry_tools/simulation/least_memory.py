"""How much memory would do: found by trying."""

from collections.abc import Callable

from kvquarry_tools.errors import InvalidOption

_MIB = 1 << 20
#: More than any machine has: what does not fit here never fits.
_MOST_BYTES = 1 << 50
#: Memory is found to one part in so many.
_FINENESS = 64


def least_memory(holds: Callable[[int], bool], memory_bytes: int) -> int | None:
    """Whole MiB that hold something, not much more than needed; None if nothing does.

    Args:
        holds: Whether so many bytes do. A pool that cannot be made of them does not.
        memory_bytes: So many are known not to.
    """
    too_few = max(memory_bytes // _MIB, 1)
    enough = 2 * too_few
    while not _does_hold(holds, enough * _MIB):
        too_few, enough = enough, 2 * enough
        if enough * _MIB > _MOST_BYTES:
            return None
    while enough - too_few > max(enough // _FINENESS, 1):
        middle = (enough + too_few) // 2
        if _does_hold(holds, middle * _MIB):
            enough = middle
        else:
            too_few = middle
    return enough * _MIB


def _does_hold(holds: Callable[[int], bool], memory_bytes: int) -> bool:
    try:
        return holds(memory_bytes)
    except InvalidOption:
        return False
