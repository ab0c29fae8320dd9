"""What a pool's model computes for its tokens, in floating-point operations.

A token costs the same wherever it stands, but for full attention: there it meets all tokens before
it, so that a prefix of ``n`` tokens has ``n * (n + 1) / 2`` pairs::

    work of a prefix  =  n * token_flops  +  n * (n + 1) / 2 * token_pair_flops

What meets a bounded number of others (windows, chunks, states) is part of ``token_flops``.
Source: the FLOP efficiency of Marconi (arXiv 2411.19379), to which the square of the length matters
because a checkpoint has the same size after ten tokens as after a hundred thousand.
"""

import math
from dataclasses import dataclass

from kvquarry_core.errors import Reason, UsageError

#: More than any model takes for a token or a pair, and so little that no sum of it overflows.
_MOST_FLOPS = 1e24


@dataclass(frozen=True, slots=True)
class Work:
    """Floating-point operations of one model; those of all workers together.

    Only proportions matter, since all content of a pool serves one model.

    Attributes:
        token_flops: For a token, wherever it stands: two for each parameter that it passes.
        token_pair_flops: For a token and one that it attends to in layers of full attention, all of
            them together; a token attends to itself, too.
    """

    token_flops: float
    token_pair_flops: float = 0.0

    def check(self) -> None:
        """Refuse what is no amount of work.

        Raises:
            UsageError: A number is negative, infinite, none at all, or beyond any model's.
        """
        for name, flops in (
            ("token_flops", self.token_flops),
            ("token_pair_flops", self.token_pair_flops),
        ):
            if not (math.isfinite(flops) and 0 <= flops <= _MOST_FLOPS):
                raise UsageError(
                    Reason.INVALID_ARGUMENT,
                    f"a model's work has a {name} of {flops}: give a number from 0 to "
                    f"{_MOST_FLOPS:.0e}, or leave the work out",
                )

    def of_prefix(self, num_tokens: int) -> float:
        """To compute the first so many tokens of a text."""
        num_pairs = num_tokens * (num_tokens + 1) / 2
        return num_tokens * self.token_flops + num_pairs * self.token_pair_flops


#: What stands for work where nobody told it: every token is as good as any other.
TOKENS = Work(token_flops=1.0)
