"""Which rows may be committed: checked, all of them, before the first is."""

from collections.abc import Collection, Container, Sequence

from kvquarry_core.block_store import BlockStore
from kvquarry_core.checks import check_blocks, check_kind
from kvquarry_core.errors import Reason, UsageError
from kvquarry_core.ids import BlockId, ClassId, GroupId
from kvquarry_core.lease import Lease
from kvquarry_core.messages import FullRows
from kvquarry_core.plan import Plan
from kvquarry_core.requests import Places, RequestRecord
from kvquarry_core.running import RunningRequests


def check_rows(
    store: BlockStore, lease: Lease, requests: RunningRequests, commits: Sequence[FullRows]
) -> list[tuple[RequestRecord, Places]]:
    """Whether all of these rows may be committed together; returns whose they are, and where.

    Raises:
        UsageError: One of them may not.
    """
    records = [requests.record(rows.handle) for rows in commits]
    places = [
        _check_commit(store, lease, record, rows)
        for record, rows in zip(records, commits, strict=True)
    ]
    if len(commits) > 1:
        check_no_block_twice(store.plan, commits)
    return list(zip(records, places, strict=True))


def check_no_block_twice(plan: Plan, commits: Sequence[FullRows]) -> None:
    """What is committed together must not name a block twice.

    A run names each of its blocks once, as :func:`check_rows` sees; so only runs of one size class
    could have one in common.
    """
    of_class: dict[ClassId, list[FullRows]] = {}
    for rows in commits:
        of_class.setdefault(plan.class_of_kind(rows.kind), []).append(rows)
    for size_class, together in of_class.items():
        blocks = [one.blocks for one in together]
        if len(blocks) > 1 and len(set().union(*blocks)) != sum(map(len, blocks)):
            raise UsageError(
                Reason.ALREADY_COMMITTED, f"a block of size class {size_class} is committed twice"
            )


def _check_commit(store: BlockStore, lease: Lease, record: RequestRecord, rows: FullRows) -> Places:
    """Only its sole owner may commit a block, and only once; leased blocks are the client's own."""
    plan, kind = store.plan, rows.kind
    check_kind(plan, kind)
    if not plan.spec_of_kind(kind).may_be_hit:
        raise UsageError(
            Reason.INVALID_ARGUMENT,
            f"kind {kind} is {plan.spec_of_kind(kind).kind.value}: its blocks are never shared",
        )
    members = plan.kinds[kind]
    if len(rows.blocks) != len(rows.hashes) * len(members):
        raise UsageError(
            Reason.UNKNOWN_GROUP,
            f"{len(rows.hashes)} rows of kind {kind} have not {len(rows.blocks)} blocks",
        )
    places = []
    for member, group in enumerate(members):
        column = rows.blocks if len(members) == 1 else rows.blocks[member :: len(members)]
        place = record.place_of(group, column)
        if place is None:
            check_blocks(plan, group, column)
            _check_each(store, group, column, leased=lease.blocks[group], held=record.held[group])
        places.append(place)
    return places


def _check_each(
    store: BlockStore,
    group: GroupId,
    column: Sequence[BlockId],
    *,
    leased: Container[BlockId],
    held: Collection[BlockId],
) -> None:
    """The slow way, for blocks that do not stand together among those a request may commit."""
    size_class = store.plan.class_of_group[group]
    if len(set(column)) != len(column):
        raise UsageError(Reason.ALREADY_COMMITTED, f"a block of group {group} is committed twice")
    if len(column) > 1:
        held = set(held)  # else each of many blocks is looked for among all of a long request
    for block in column:
        if block in leased:
            continue
        if block not in held:
            raise UsageError(
                Reason.NOT_HELD, f"the request does not hold block {block} in group {group}"
            )
        if store.num_references(size_class, block) != 1:
            raise UsageError(
                Reason.NOT_SOLE_OWNER, f"block {block} of group {group} has other users"
            )
        if store.contents.is_hashed(size_class, block):
            raise UsageError(
                Reason.ALREADY_COMMITTED, f"block {block} of group {group} has a hash already"
            )
