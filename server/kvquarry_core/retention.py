"""Which states deserve to stay as checkpoints.

A state costs as much memory as hundreds or thousands of tokens of attention, so most are not
worth keeping. Source: vLLM's ``prefix_cache_retention_interval``; Marconi (arXiv 2411.19379) for
the junction.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Retention:
    """Keeps states at proven reuse points, and one per interval besides.

    Attributes:
        alignment_tokens: Hits end at multiples of this.
        interval_tokens: One state per so many tokens is kept; None keeps all of them, 0 only
            those at the boundaries.
    """

    alignment_tokens: int
    interval_tokens: int | None

    def keeps(self, num_tokens: int, boundaries: Iterable[int]) -> bool:
        """Whether the state after ``num_tokens`` tokens is worth keeping.

        Args:
            num_tokens: A multiple of the kind's block size.
            boundaries: Positions a later request may resume at: the end of the prompt, less its
                last token, and the junction with another request.
        """
        interval = self.interval_tokens
        if interval is None or (interval and num_tokens % interval == 0):
            return True
        return any(
            num_tokens == boundary // self.alignment_tokens * self.alignment_tokens
            for boundary in boundaries
        )

    def lengths_kept(self, least: int, most: int, boundaries: Iterable[int]) -> list[int]:
        """The lengths from ``least`` to ``most`` tokens at which a hit may end and which are kept.

        For kinds whose hit needs more than the last row before its end.
        """
        align, interval = self.alignment_tokens, self.interval_tokens
        lengths = {boundary // align * align for boundary in boundaries}
        if interval != 0:
            step = align if interval is None else math.lcm(align, interval)
            lengths.update(range(-(-least // step) * step, most + 1, step))
        return sorted(length for length in lengths if least <= length <= most)
