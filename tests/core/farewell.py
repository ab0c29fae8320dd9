"""What a request leaves behind, and in which order it is to be evicted."""

from collections.abc import Sequence

from kvquarry_core.ids import BlockHash, ClassId, GroupId, Handle, KindId
from kvquarry_core.plan import GroupKind, GroupSpec, Plan
from kvquarry_core.pool import Pool
from kvquarry_core.priorities import NUM_PRIORITIES
from tests.core.books import NEVER_SHARED, Books
from tests.core.memory import Key


def unreached(books: Books, handle: Handle) -> set[Key]:
    """The request's blocks after its last checkpoint, in pools that do not keep stock's order."""
    plan = books.plan
    left: set[Key] = set()
    for index, spec in enumerate(plan.groups):
        if not state_kinds(plan) or _keeps_stock_order(plan) or not _is_attention(spec):
            continue
        keys = _keys_of(books, handle, index)
        if not _is_coarse_draft(plan, spec):
            left.update(keys[_num_reached(books, handle, index) :])
            continue
        # Its names say nothing of checkpoints. Where all is kept, those of another group do.
        others = [
            number
            for number, other in enumerate(plan.groups)
            if spec.kind is other.kind is GroupKind.FULL_ATTENTION
            and not _is_coarse_draft(plan, other)
        ]
        for other in others[:1]:
            tokens = _num_reached(books, handle, other) * plan.groups[other].block_tokens
            left.update(keys[-(-tokens // spec.block_tokens) :])
    return left


def _is_coarse_draft(plan: Plan, spec: GroupSpec) -> bool:
    return spec.is_draft and spec.block_tokens > plan.hash_tokens


def _keys_of(books: Books, handle: Handle, index: int) -> list[Key]:
    places = books.requests[handle].held[index]
    return [books.key(GroupId(index), place.block) for place in places]


def _num_reached(books: Books, handle: Handle, index: int) -> int:
    """Blocks up to the last one whose end, or the next one's with drafts, has a checkpoint."""
    plan = books.plan
    names = [_names_of(books, key) for key in _keys_of(books, handle, index)]
    ends = [
        number
        for number, found in enumerate(names, 1)
        if any(all((kind, name) in books.findable for kind in state_kinds(plan)) for name in found)
    ]
    return min(max(ends, default=0) + plan.groups[index].is_draft, len(names))


def resumable(books: Books, handle: Handle) -> set[Key]:
    """The deepest checkpoint of a request: it ends its life as young as the request."""
    rows = [
        books.findable.get((kind, name), [])
        for kind, name in books.requests[handle].resumable.items()
    ]
    if _keeps_stock_order(books.plan):
        return set()
    return {key for entries in rows for entry in entries[:1] for key in entry.keys}


def state_kinds(plan: Plan) -> list[KindId]:
    """The kinds of recurrent state."""
    kinds = [KindId(kind) for kind in range(len(plan.kinds))]
    return [kind for kind in kinds if plan.spec_of_kind(kind).kind is GroupKind.RECURRENT_STATE]


def _keeps_stock_order(plan: Plan) -> bool:
    return len({size_class.stride_bytes for size_class in plan.classes}) == 1


def _is_attention(spec: GroupSpec) -> bool:
    return spec.kind not in (GroupKind.RECURRENT_STATE, *NEVER_SHARED)


def _names_of(books: Books, key: Key) -> set[BlockHash]:
    """What a block can be found under: one hash or none."""
    return {
        block_hash
        for (_, block_hash), rows in books.findable.items()
        for entry in rows
        if key in entry.keys
    }


def by_age(pool: Pool) -> list[list[Key]]:
    """The cached blocks of each class, the next victim first."""
    classes = [ClassId(index) for index in range(len(pool.plan.classes))]
    return [[(one, block) for block in pool.store.cache.by_age(one)] for one in classes]


def check_order(
    books: Books,
    orders: tuple[Sequence[Sequence[Key]], Sequence[Sequence[Key]]],
    left: set[Key],
    renewed: set[Key],
) -> None:
    """What nobody can hit stands before all that was there, everything else after it.

    After all of its own priority, that is: what has a higher one stands behind. What was
    ``renewed`` stands after it, too, though it was there.
    """
    for was_there, new in zip(*orders, strict=True):
        old = [key for key in was_there if key not in renewed]
        num_first = len(left.intersection(new))
        assert left.issuperset(new[:num_first]), f"{left} goes first, the order is {new}"
        for priority in range(NUM_PRIORITIES):
            were = [key for key in old if books.priorities.get(key, 0) == priority]
            are = [key for key in new[num_first:] if books.priorities.get(key, 0) == priority]
            assert are[: len(were)] == were, f"{old} became {new}"
