"""What a request was let in for and has not been granted yet."""

from collections.abc import Sequence
from dataclasses import dataclass

from kvquarry_core.ids import GroupId


@dataclass(slots=True)
class Promise:
    """Blocks that a request is still owed, by group.

    Where blocks come back on the way, as they leave a window, a request is granted more than it
    ever holds: what it is owed is bounded by both.

    Attributes:
        left: Blocks still to be granted; below 0 for a request that was granted more.
        room: Blocks it may still hold besides those it holds now.
    """

    left: list[int]
    room: list[int]

    @classmethod
    def of(cls, in_all: Sequence[int], at_once: Sequence[int]) -> "Promise":
        """To be granted ``in_all[g]`` blocks in every group ``g``, ``at_once[g]`` at a time."""
        return cls(list(in_all), list(at_once))

    def owed(self, group: GroupId) -> int:
        """Blocks to keep for it now."""
        return max(min(self.left[group], self.room[group]), 0)

    def granted(self, group: GroupId, num_blocks: int) -> None:
        """Blocks were handed out, or if it is less than 0, were not spent and came back."""
        self.left[group] -= num_blocks
        self.room[group] -= num_blocks

    def dropped(self, group: GroupId, num_blocks: int) -> None:
        """Blocks were given up: others may take their place."""
        self.room[group] += num_blocks
