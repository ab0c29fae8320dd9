"""What any policy must keep to, checked on the real pool; needs no test framework.

    from kvquarry_tools.conformance import check_placement

    def test_best_fit_conforms() -> None:
        check_placement(BestFit)

A policy may choose badly, but never break the accounting: whatever it says, each law of a pool
holds after every operation, what fits is granted, and what was promised still fits.
"""

from kvquarry_tools.conformance.checks import (
    check_eviction,
    check_placement,
    check_relocation,
    check_retention,
)
from kvquarry_tools.conformance.errors import NotConforming

__all__ = [
    "NotConforming",
    "check_eviction",
    "check_placement",
    "check_relocation",
    "check_retention",
]
