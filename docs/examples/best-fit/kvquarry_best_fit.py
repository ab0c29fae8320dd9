"""A placement for kvquarry: the fullest slab that has room takes the next block."""

from kvquarry_core.ids import ClassId, SlabId
from kvquarry_core.slabs import SlabMap


class BestFit:
    """Fills up what is nearly full, so that slabs that are nearly empty may become so.

    Asks every slab of the class that has room, so a large pool pays for it at each grant.
    """

    def choose(self, slabs: SlabMap, size_class: ClassId, near: SlabId | None) -> SlabId | None:
        """See :meth:`kvquarry_core.placement.Placement.choose`."""

        def num_free_then_number(slab: SlabId) -> tuple[int, int]:
            return slabs.num_free_in(slab), slab

        return min(slabs.partial(size_class), key=num_free_then_number, default=None)
