"""The placement keeps to the rules."""

from kvquarry_best_fit import BestFit

from kvquarry_tools.conformance import check_placement


def test_best_fit_conforms() -> None:
    """Random pools of two to four block sizes, every law after each operation."""
    check_placement(BestFit)
