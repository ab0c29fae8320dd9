"""What becomes of many measured times: percentiles, medians of runs, and how far runs spread."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Spread:
    """One figure of several runs.

    Attributes:
        median: The middle one.
        low: The least.
        high: The greatest.
    """

    median: float
    low: float
    high: float

    def rounded(self, digits: int = 3) -> list[float]:
        """Median, least, greatest."""
        return [round(one, digits) for one in (self.median, self.low, self.high)]


def spread(figures: Sequence[float]) -> Spread:
    """Of at least one run."""
    return Spread(statistics.median(figures), min(figures), max(figures))


def percentile(samples: Sequence[float], share: float) -> float:
    """The least sample that ``share`` of all do not exceed."""
    ordered = sorted(samples)
    return ordered[max(math.ceil(share * len(ordered)) - 1, 0)]


def p50(samples: Sequence[float]) -> float:
    """The middle one."""
    return percentile(samples, 0.5)


def p99(samples: Sequence[float]) -> float:
    """What one in a hundred exceeds."""
    return percentile(samples, 0.99)
