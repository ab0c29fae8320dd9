"""Every conservation law of a pool, recounted from scratch.

The laws hold after every operation. A law that does not is a bug of ours, so this raises
:class:`~kvquarry_core.errors.BrokenLaw` with the name of the guilty block, slab or request.
O(blocks): for tests, audits and debug modes.
"""

import itertools
from collections import Counter

from kvquarry_core.errors import BrokenLaw
from kvquarry_core.ids import NULL_BLOCK, BlockId, ClassId, KindId, SlabId
from kvquarry_core.lru import LEVEL_STAMP, OLDEST_STAMP
from kvquarry_core.pool import Pool


def check_integrity(pool: Pool) -> None:
    """Raise :class:`BrokenLaw` unless all of the pool's books agree."""
    for index in range(len(pool.plan.classes)):
        size_class = ClassId(index)
        references, granted = _claims(pool, size_class)
        _check_references(pool, size_class, references)
        _check_every_block_is_one_thing(pool, size_class, references, granted)
    _check_what_may_be_committed(pool)
    _check_slabs(pool)
    _check_recency(pool)
    _check_sessions(pool)
    _check_priorities(pool)
    _check_pins(pool)
    _check_no_byte_has_two_owners(pool)
    _check_index(pool)


def _claims(pool: Pool, size_class: ClassId) -> tuple[Counter[BlockId], Counter[BlockId]]:
    """References and grants of a class, counted over all requests."""
    references: Counter[BlockId] = Counter()
    granted: Counter[BlockId] = Counter()
    if size_class == 0:
        references.update(BlockId(block) for block in range(pool.plan.num_reserved_blocks))
    for record in pool.requests.values():
        for group, owner in enumerate(pool.plan.class_of_group):
            if owner == size_class:
                references.update(record.held[group])
                granted.update(record.granted[group])
    for group, owner in enumerate(pool.plan.class_of_group):
        if owner == size_class:
            granted.update(pool.lease.blocks[group])
            for columns in pool.pins.columns():
                references.update(columns[group])
    return references, granted


def _check_references(pool: Pool, size_class: ClassId, references: Counter[BlockId]) -> None:
    for index in range(pool.plan.classes[size_class].num_blocks):
        block = BlockId(index)
        counted = pool.store.num_references(size_class, block)
        if counted != references[block]:
            raise BrokenLaw(
                f"block {block} of class {size_class} counts {counted} references, "
                f"but {references[block]} are held"
            )


def _check_every_block_is_one_thing(
    pool: Pool, size_class: ClassId, references: Counter[BlockId], granted: Counter[BlockId]
) -> None:
    """free + active + cached + granted = carved, and no block is two of these."""
    slabs = pool.store.slabs
    carved = [SlabId(i) for i in range(pool.plan.num_slabs) if slabs.owner(SlabId(i)) == size_class]
    states: Counter[BlockId] = Counter(set(references))
    states.update(granted)
    states.update(pool.store.cache.by_age(size_class))
    for slab in carved:
        free = slabs.free_blocks(slab)
        if len(free) != slabs.num_free_in(slab):
            raise BrokenLaw(f"slab {slab} counts {slabs.num_free_in(slab)} free, has {len(free)}")
        states.update(free)
    per_slab = pool.plan.classes[size_class].blocks_per_slab
    expected = {BlockId(slab * per_slab + i) for slab in carved for i in range(per_slab)}
    if set(states) != expected or max(states.values(), default=1) != 1:
        wrong = (set(states) ^ expected) or {b for b, n in states.items() if n != 1}
        raise BrokenLaw(f"blocks of class {size_class} lost or claimed twice: {sorted(wrong)}")
    if sum(granted.values()) != pool.store.num_granted[size_class]:
        raise BrokenLaw(
            f"class {size_class} counts {pool.store.num_granted[size_class]} granted blocks"
        )


def _check_what_may_be_committed(pool: Pool) -> None:
    """What a record says is the request's alone has one reference and no hash."""
    for handle, record in pool.requests.items():
        for group, size_class in enumerate(pool.plan.class_of_group):
            for block in record.held[group][record.settled[group] :]:
                references = pool.store.num_references(size_class, block)
                if references != 1 or pool.store.contents.is_hashed(size_class, block):
                    raise BrokenLaw(f"block {block} in group {group} is not {handle}'s to commit")


def _check_slabs(pool: Pool) -> None:
    """carved + unassigned = all; a slab is idle iff it holds cached blocks and none in use."""
    slabs = pool.store.slabs
    num_classes = len(pool.plan.classes)
    carved = sum(slabs.num_carved(ClassId(index)) for index in range(num_classes))
    if carved + slabs.num_unassigned != pool.plan.num_slabs:
        raise BrokenLaw(f"{carved} carved and {slabs.num_unassigned} unassigned slabs")
    for index in range(num_classes):
        size_class = ClassId(index)
        per_slab = pool.plan.classes[size_class].blocks_per_slab
        num_cached: Counter[SlabId] = Counter(
            slabs.slab_of(size_class, block) for block in pool.store.cache.by_age(size_class)
        )
        idle = {
            slab
            for slab, cached in num_cached.items()
            if cached + slabs.num_free_in(slab) == per_slab
        }
        if idle != set(pool.store.cache.idle_slabs(size_class)):
            raise BrokenLaw(f"idle slabs of class {size_class} should be {sorted(idle)}")


def _check_recency(pool: Pool) -> None:
    """What is said to be older was not used since, slabs and blocks alike."""
    cache = pool.store.cache
    for size_class in map(ClassId, range(len(pool.plan.classes))):
        blocks = [cache.stamp_of(size_class, one) for one in cache.by_age(size_class)]
        slabs = [cache.idle_since(size_class, one) for one in cache.idle_slabs(size_class)]
        for stamps in (blocks, slabs):
            if stamps != sorted(stamps) or any(one % LEVEL_STAMP > cache.now for one in stamps):
                raise BrokenLaw(f"class {size_class} keeps no order of age: {stamps}")


def _check_sessions(pool: Pool) -> None:
    """What is known of a checkpoint is forgotten with it; an outgrown one is still in use."""
    store = pool.store
    for size_class in map(ClassId, range(len(pool.plan.classes))):
        outgrown = store.sessions.outgrown[size_class]
        for block in (*outgrown, *store.sessions.num_hits[size_class]):
            if not store.contents.is_hashed(size_class, block):
                raise BrokenLaw(f"block {block} of class {size_class} is no checkpoint")
        for block in outgrown:
            if not store.num_references(size_class, block):
                raise BrokenLaw(f"outgrown block {block} of class {size_class} is not in use")


def _check_priorities(pool: Pool) -> None:
    """Only content has one; what is cached stands where it says, unless nobody will miss it."""
    contents, cache = pool.store.contents, pool.store.cache
    for size_class in map(ClassId, range(len(pool.plan.classes))):
        noted = contents.priorities.of_class[size_class]
        for block in noted:
            if not contents.is_hashed(size_class, block):
                raise BrokenLaw(f"block {block} of class {size_class} has a priority, no content")
        for block in cache.by_age(size_class):
            stamp = cache.stamp_of(size_class, block)
            if stamp != OLDEST_STAMP and stamp // LEVEL_STAMP != noted.get(block, 0):
                raise BrokenLaw(f"block {block} of class {size_class} is in the wrong place")
        _check_priorities_of_slabs(pool, size_class)


def _check_priorities_of_slabs(pool: Pool, size_class: ClassId) -> None:
    """A slab has the highest one of its blocks, and waits no less long than it says when idle."""
    slabs, cache = pool.store.slabs, pool.store.cache
    priorities = pool.store.contents.priorities
    highest: dict[SlabId, int] = {}
    for block, priority in priorities.of_class[size_class].items():
        slab = slabs.slab_of(size_class, block)
        highest[slab] = max(highest.get(slab, 0), priority)
    counted = [slab for slab in priorities.slabs() if slabs.owner(slab) == size_class]
    if {slab: priorities.of_slab(slab) for slab in counted} != highest:
        raise BrokenLaw(f"slabs of class {size_class} should have the priorities {highest}")
    for slab in cache.idle_slabs(size_class):
        stamp = cache.idle_since(size_class, slab)
        if stamp != OLDEST_STAMP and stamp // LEVEL_STAMP < highest.get(slab, 0):
            raise BrokenLaw(f"idle slab {slab} of class {size_class} would go too early")


def _check_pins(pool: Pool) -> None:
    """What is pinned can be found, and is no more than pins may hold."""
    pinned: list[set[BlockId]] = [set() for _ in pool.plan.classes]
    for pin in pool.pins:
        for size_class, blocks in zip(pool.plan.class_of_group, pin.held, strict=True):
            pinned[size_class].update(blocks)
            for block in blocks:
                if not pool.store.contents.is_hashed(size_class, block):
                    raise BrokenLaw(f"pin {pin.pin_id} holds block {block}, which has no hash")
    num_bytes = sum(
        len(blocks) * pool.plan.block_bytes(ClassId(index)) for index, blocks in enumerate(pinned)
    )
    if num_bytes != pool.pins.pinned_bytes or num_bytes > pool.pins.cap_bytes:
        raise BrokenLaw(
            f"pins hold {num_bytes} bytes, count {pool.pins.pinned_bytes} and may hold "
            f"{pool.pins.cap_bytes}"
        )


def _check_no_byte_has_two_owners(pool: Pool) -> None:
    """Referenced and granted blocks of all classes never overlap in the pool's bytes."""
    spans = []
    for index, geometry in enumerate(pool.plan.classes):
        references, granted = _claims(pool, ClassId(index))
        for block in {*references, *granted} - {NULL_BLOCK}:
            start = block * geometry.stride_bytes
            spans.append((start, start + geometry.stride_bytes, index, block))
    spans.sort()
    for one, other in itertools.pairwise(spans):
        if other[0] < one[1]:
            raise BrokenLaw(
                f"blocks {one[3]} of class {one[2]} and {other[3]} of {other[2]} overlap"
            )


def _check_index(pool: Pool) -> None:
    """Index entries = hashed blocks; every member of a row points to it; unhashed is not cached."""
    indexed = set()
    for number in range(len(pool.plan.kinds)):
        size_class = pool.plan.class_of_kind(KindId(number))
        for commitment in pool.store.index.commitments(KindId(number)):
            for block in commitment.row:
                if pool.store.contents.commitment(size_class, block) != commitment:
                    raise BrokenLaw(f"block {block} of class {size_class} is an orphan of its row")
                indexed.add((size_class, block))
    for number, geometry in enumerate(pool.plan.classes):
        for index in range(geometry.num_blocks):
            key = (ClassId(number), BlockId(index))
            if pool.store.contents.is_hashed(*key) != (key in indexed):
                raise BrokenLaw(f"block {index} of class {number} is hashed but not indexed")
        cached = set(pool.store.cache.by_age(ClassId(number)))
        if not cached <= {block for size_class, block in indexed if size_class == number}:
            raise BrokenLaw(f"class {number} caches blocks nobody can find")
