"""Policies by name: placements and evictions are the core's own."""

from kvquarry_core.placement import PLACEMENTS, Placement
from kvquarry_tools.errors import InvalidOption

#: Orders of eviction that :class:`kvquarry_core.pool.Pool` knows.
EVICTIONS = ("lru",)


def placement(name: str) -> Placement:
    """A new placement.

    Raises:
        InvalidOption: The core has none of that name.
    """
    if name not in PLACEMENTS:
        raise InvalidOption(f"no --placement {name!r}; there are {', '.join(PLACEMENTS)}")
    return PLACEMENTS[name]()


def check_eviction(name: str) -> None:
    """Refuse an unknown order of eviction.

    Raises:
        InvalidOption: The core has none of that name.
    """
    if name not in EVICTIONS:
        raise InvalidOption(f"no --eviction {name!r}; there are {', '.join(EVICTIONS)}")
