"""Where a pool's blocks are, as a snapshot."""

from dataclasses import dataclass

from kvquarry_core.ids import ClassId
from kvquarry_core.pool import Pool


@dataclass(frozen=True, slots=True)
class ClassUsage:
    """Where the blocks of one size class are.

    ``free + cached + active + granted + null = carved``.

    Attributes:
        free: Nobody's, and nothing is in them.
        cached: Nobody's, with content that can be found.
        active: Referenced by requests, or by pins.
        granted: Owed to requests that have not spent them yet, and leased states.
        null: Those that the null blocks cover, which nobody ever uses.
    """

    free: int
    cached: int
    active: int
    granted: int
    null: int

    @property
    def carved(self) -> int:
        """Blocks in the slabs the class owns."""
        return self.free + self.cached + self.active + self.granted + self.null


@dataclass(frozen=True, slots=True)
class PoolUsage:
    """A pool at one revision.

    Attributes:
        classes: By size class.
        unassigned_slabs: Slabs that belong to no class.
        used_bytes: Bytes of active and granted blocks: what pins hold is used, too.
        usable_bytes: Bytes that could ever be used.
    """

    classes: tuple[ClassUsage, ...]
    unassigned_slabs: int
    used_bytes: int
    usable_bytes: int


def usage_of(pool: Pool) -> PoolUsage:
    """Count the blocks of a pool; O(size classes)."""
    ids = [ClassId(index) for index in range(len(pool.plan.classes))]
    classes = tuple(_class_usage(pool, size_class) for size_class in ids)
    nulls = pool.plan.num_reserved_blocks * pool.plan.block_bytes(ClassId(0))
    used = sum(
        (usage.active + usage.granted) * pool.plan.block_bytes(size_class)
        for size_class, usage in zip(ids, classes, strict=True)
    )
    return PoolUsage(
        classes=classes,
        unassigned_slabs=pool.store.slabs.num_unassigned,
        used_bytes=used,
        usable_bytes=pool.plan.pool_bytes - nulls,
    )


def _class_usage(pool: Pool, size_class: ClassId) -> ClassUsage:
    slabs = pool.store.slabs
    carved = slabs.num_carved(size_class) * pool.plan.classes[size_class].blocks_per_slab
    free, cached = slabs.num_free(size_class), pool.store.cache.num_cached(size_class)
    granted = pool.store.num_granted[size_class]
    null = 0 if size_class else pool.plan.num_reserved_blocks
    return ClassUsage(free, cached, carved - free - cached - granted - null, granted, null)
