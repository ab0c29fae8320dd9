"""Runs of several sides, one after the other and again, so that a slow minute hits all alike."""

from collections.abc import Callable, Sequence
from typing import TypeVar

Side = TypeVar("Side")
Result = TypeVar("Result")


def alternated(
    sides: Sequence[Side],
    num_rounds: int,
    run: Callable[[Side], Result],
    tell: Callable[[str], None] = lambda _: None,
) -> list[list[Result]]:
    """Run every side once in each round.

    Args:
        sides: What is compared.
        num_rounds: How often.
        run: Runs one side once.
        tell: Is told which round begins.

    Returns:
        For each round, the results in the order of the sides.
    """
    rounds = []
    for number in range(1, num_rounds + 1):
        tell(f"round {number} of {num_rounds}")
        rounds.append([run(side) for side in sides])
    return rounds
