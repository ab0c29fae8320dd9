"""All that can be observed of a pool, to compare before and after."""

from kvquarry_core.counters import PoolCounters
from kvquarry_core.ids import BlockId, ClassId, KindId, SlabId
from kvquarry_core.pool import Pool

Snapshot = dict[str, object]


def snapshot(pool: Pool) -> Snapshot:
    """A copy of a pool's books, the count of refusals left out, since refusals are counted."""
    classes = [ClassId(index) for index in range(len(pool.plan.classes))]
    totals = {name: getattr(pool.totals, name) for name in PoolCounters.__slots__}
    del totals["refusals"], totals["pins_refused"]
    return {
        "requests": {
            handle: (
                [list(blocks) for blocks in record.held],
                [list(blocks) for blocks in record.granted],
                dict(record.last_slab),
                (record.query_tokens, record.hit_tokens),
            )
            for handle, record in pool.requests.items()
        },
        "granted": list(pool.store.num_granted),
        "leased": [set(blocks) for blocks in pool.lease.blocks],
        "pins": {
            pin.pin_id: ([list(blocks) for blocks in pin.held], pin.deadline_s) for pin in pool.pins
        },
        "priorities": [dict(noted) for noted in pool.store.contents.priorities.of_class],
        "totals": totals,
        "evictions": list(pool.store.num_evictions),
        "index": [
            pool.store.index.commitments(KindId(kind)) for kind in range(len(pool.plan.kinds))
        ],
        "classes": [_snapshot_of_class(pool, size_class) for size_class in classes],
        "slabs": _snapshot_of_slabs(pool),
    }


def _snapshot_of_class(pool: Pool, size_class: ClassId) -> object:
    blocks = [BlockId(index) for index in range(pool.plan.classes[size_class].num_blocks)]
    return (
        [pool.store.num_references(size_class, block) for block in blocks],
        [pool.store.contents.commitment(size_class, block) for block in blocks],
        [pool.store.slabs.is_dirty(size_class, block) for block in blocks],
        list(pool.store.cache.by_age(size_class)),
        list(pool.store.cache.idle_slabs(size_class)),
        list(pool.store.slabs.partial(size_class)),
    )


def _snapshot_of_slabs(pool: Pool) -> object:
    slabs = pool.store.slabs
    numbers = [SlabId(index) for index in range(pool.plan.num_slabs)]
    owners = [slabs.owner(slab) for slab in numbers]
    free = [
        slabs.free_blocks(slab)
        for slab, owner in zip(numbers, owners, strict=True)
        if owner is not None
    ]
    return owners, free, slabs.num_unassigned, [list(row) for row in slabs.num_class_changes]
