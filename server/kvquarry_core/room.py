"""What a pool could hand out if all cached content had to go: the sums behind "does it fit"."""

from collections.abc import Sequence
from dataclasses import dataclass

from kvquarry_core.ids import ClassId
from kvquarry_core.plan import Plan


@dataclass(frozen=True, slots=True)
class Room:
    """Blocks and slabs that nobody uses, by size class.

    Attributes:
        plan: How memory is cut.
        own: Free and cached blocks in the slabs of each class.
        idle: Slabs of each class that hold cached content and nothing in use.
        num_unassigned: Slabs of nobody.
    """

    plan: Plan
    own: Sequence[int]
    idle: Sequence[int]
    num_unassigned: int

    def surplus(self, size_class: ClassId, demand: Sequence[int]) -> int:
        """Own blocks of a class beyond its demand; below 0 where it needs further slabs."""
        return self.own[size_class] - demand[size_class]

    def num_spare_slabs(self, demand: Sequence[int]) -> int:
        """Slabs that are left when every class has its demand; below 0 where they lack."""
        num_slabs = self.num_unassigned
        for index, geometry in enumerate(self.plan.classes):
            surplus = self.own[index] - demand[index]
            if surplus < 0:
                num_slabs += surplus // geometry.blocks_per_slab
            else:
                num_slabs += min(self.idle[index], surplus // geometry.blocks_per_slab)
        return num_slabs
