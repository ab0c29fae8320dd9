"""Runs of several sides, one after the other and again, so that a slow minute hits all alike."""

from collections.abc import Callable, Sequence
from typing import TypeVar

Side = TypeVar("Side")
Result = TypeVar("Result")


def alternated(
    sides: Sequence[Side], num_rounds: int, run: Callable[[Side], Result]
) -> list[list[Result]]:
    """Run every side once in each round.

    Returns:
        For each round, the results in the order of the sides.
    """
    return [[run(side) for side in sides] for _ in range(num_rounds)]
