"""What is being handed out, and what was promised beyond it."""

from dataclasses import dataclass

from kvquarry_core.ids import ClassId


@dataclass(slots=True)
class Demand:
    """Blocks wanted by size class; shrinks while they are handed out.

    Attributes:
        now: What this grant hands out.
        promised: The same and what running requests were promised besides: it has to fit still
            when the grant is done.
    """

    now: list[int]
    promised: list[int]

    def shrink(self, size_class: ClassId, num_blocks: int) -> None:
        """So many blocks were handed out."""
        self.now[size_class] -= num_blocks
        self.promised[size_class] -= num_blocks
