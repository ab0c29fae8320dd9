"""Which checkpoints are kept, by name."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

from kvquarry_core.retention import Retention
from kvquarry_tools.errors import InvalidInput

#: What :func:`checkpoints` takes.
RETENTIONS = ("dense", "boundaries", "last", "every-N")


class UnknownPolicy(InvalidInput):
    """No policy has that name; the message lists those there are."""


@dataclass(frozen=True, slots=True)
class Checkpoints:
    """Where one pool's requests leave checkpoints.

    Attributes:
        retention: The core's rule.
        is_told_of_junctions: Whether the rule hears where a longer prefix of another request parts
            from this one.
    """

    retention: Retention
    is_told_of_junctions: bool

    @property
    def interval_tokens(self) -> int | None:
        """How far apart checkpoints are; None where only boundaries count.

        A hit ends where the blocks of all groups end, so ``every-100`` with blocks of 16 tokens
        keeps one every 400.
        """
        align, interval = self.retention.alignment_tokens, self.retention.interval_tokens
        if interval is None:
            return align
        return math.lcm(align, interval) if interval else None

    def boundaries(self, num_shareable_tokens: int, junction_tokens: int) -> tuple[int, ...]:
        """Where a later request may resume."""
        if self.is_told_of_junctions and junction_tokens:
            return (num_shareable_tokens, junction_tokens)
        return (num_shareable_tokens,)

    def within(self, start: int, end: int, boundaries: tuple[int, ...]) -> Iterator[int]:
        """Positions in ``(start, end]`` whose state is kept, ascending."""
        align, keeps = self.retention.alignment_tokens, self.retention.keeps
        first = start // align * align + align
        return (p for p in range(first, end + 1, align) if keeps(p, boundaries))


def checkpoints(name: str, alignment_tokens: int) -> Checkpoints:
    """The rule a name stands for.

    Args:
        name: "dense" keeps every block boundary; "last" the last one of the prompt; "boundaries"
            the junctions besides; "every-4096" those and one every 4,096 tokens, or every least
            common multiple of that and ``alignment_tokens``.
        alignment_tokens: Hits end at multiples of this.

    Raises:
        UnknownPolicy: There is no such rule.
    """
    if name == "dense":
        return Checkpoints(Retention(alignment_tokens, None), is_told_of_junctions=True)
    if name == "last":
        return Checkpoints(Retention(alignment_tokens, 0), is_told_of_junctions=False)
    if name == "boundaries":
        return Checkpoints(Retention(alignment_tokens, 0), is_told_of_junctions=True)
    word, _, interval = name.partition("-")
    if word == "every" and interval.isdecimal() and int(interval):
        return Checkpoints(Retention(alignment_tokens, int(interval)), is_told_of_junctions=True)
    raise UnknownPolicy(f"no retention {name!r}; there are {', '.join(RETENTIONS)}")
