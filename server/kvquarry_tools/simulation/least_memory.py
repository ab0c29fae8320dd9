"""How much memory would do: found by trying."""

from collections.abc import Callable

from kvquarry_tools.errors import InvalidOption
from kvquarry_tools.search import bracket

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
    found = bracket(
        lambda mebibytes: not _does_hold(holds, mebibytes * _MIB),
        max(memory_bytes // _MIB, 1),
        _MOST_BYTES // _MIB,
        fineness=_FINENESS,
    )
    return None if found is None else found[1] * _MIB


def _does_hold(holds: Callable[[int], bool], memory_bytes: int) -> bool:
    try:
        return holds(memory_bytes)
    except InvalidOption:
        return False
