"""Work that may be interrupted, and how it is done in one go."""

from collections.abc import Generator
from typing import TypeVar

Result = TypeVar("Result")

#: Work that may be interrupted wherever it yields, and what it comes to.
Slices = Generator[None, None, Result]


def finished(slices: Slices[Result]) -> Result:
    """What work comes to when nobody interrupts it."""
    while True:
        try:
            next(slices)
        except StopIteration as stop:
            result: Result = stop.value
            return result
