"""Columns of an operation, and the runs they are cut into."""

import itertools
from collections.abc import Sequence
from typing import TypeVar

from kvquarry_core.errors import Reason, UsageError

_Item = TypeVar("_Item")


def runs_of(column: list[_Item], lengths: Sequence[int]) -> list[list[_Item]]:
    """Cut a column into its runs, which fill it exactly."""
    ends = list(itertools.accumulate(lengths))
    if (ends[-1] if ends else 0) != len(column):
        raise UsageError(
            Reason.INVALID_ARGUMENT,
            f"the runs of a column have {sum(lengths)} entries, not {len(column)}",
        )
    if len(ends) == 1:
        return [column]
    return [column[end - length : end] for end, length in zip(ends, lengths, strict=True)]


def check_columns(*columns: Sequence[object]) -> None:
    """Columns of one operation are as long as each other."""
    lengths = [len(column) for column in columns]
    if len(set(lengths)) != 1:
        raise UsageError(Reason.INVALID_ARGUMENT, f"columns must be of equal length, not {lengths}")
