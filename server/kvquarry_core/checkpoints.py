"""A retention where hits end: what is kept of a pool's checkpoints."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from kvquarry_core.retention import Dense, Interval, Landmarks, Retention


@dataclass(frozen=True, slots=True)
class Checkpoints:
    """Where one pool's requests leave checkpoints.

    Attributes:
        retention: The rule.
        alignment_tokens: Hits end at multiples of this.
    """

    retention: Retention
    alignment_tokens: int

    @property
    def interval_tokens(self) -> int | None:
        """How far apart checkpoints are; None where only boundaries count, or nobody knows.

        A hit ends where the blocks of all groups end, so ``every-100`` with blocks of 16 tokens
        keeps one every 400.
        """
        match self.retention:
            case Dense():
                return self.alignment_tokens
            case Interval(tokens):
                return math.lcm(self.alignment_tokens, tokens)
        return None

    def within(self, least: int, most: int, landmarks: Landmarks) -> Sequence[int]:
        """The lengths from ``least`` to ``most`` tokens at which a hit may end, and that are kept.

        The landmarks are aligned, see :meth:`Landmarks.aligned`.
        """
        align = self.alignment_tokens
        return self.retention.kept(range(-(-least // align) * align, most + 1, align), landmarks)
