"""A retention where hits end: what is kept of a pool's checkpoints."""

from collections.abc import Sequence
from dataclasses import dataclass

from kvquarry_core.retention import Landmarks, Retention


@dataclass(frozen=True, slots=True)
class Checkpoints:
    """Where one pool's requests leave checkpoints.

    Attributes:
        retention: The rule.
        alignment_tokens: Hits end at multiples of this.
    """

    retention: Retention
    alignment_tokens: int

    def within(self, least: int, most: int, landmarks: Landmarks) -> Sequence[int]:
        """The lengths from ``least`` to ``most`` tokens at which a hit may end, and that are kept.

        The landmarks are aligned, see :meth:`Landmarks.aligned`.
        """
        align = self.alignment_tokens
        return self.retention.kept(range(-(-least // align) * align, most + 1, align), landmarks)
