"""What a pool accepts: every argument is checked here before anything moves."""

from collections.abc import Sequence

from kvquarry_core.block_store import BlockStore
from kvquarry_core.errors import Reason, UsageError
from kvquarry_core.ids import LARGEST_HANDLE, BlockId, GroupId, Handle, KindId
from kvquarry_core.lease import Lease
from kvquarry_core.messages import AdmitRequest, AheadRequest
from kvquarry_core.plan import Plan
from kvquarry_core.prefix_index import Row
from kvquarry_core.requests import RequestRecord


def check_admit(plan: Plan, request: AdmitRequest) -> None:
    """The numbers of a request must agree with each other and with the plan."""
    if not 0 <= request.handle <= LARGEST_HANDLE:
        raise UsageError(
            Reason.INVALID_ARGUMENT,
            f"handles run from 0 to {LARGEST_HANDLE}, not {request.handle}",
        )
    if request.num_tokens < 1 or not 0 <= request.max_hit_tokens < request.num_tokens:
        raise UsageError(
            Reason.INVALID_ARGUMENT,
            f"a hit of at most {request.max_hit_tokens} tokens does not leave one of "
            f"{request.num_tokens} to compute",
        )
    counts = (request.lookahead_tokens, request.must_fit_tokens, *request.keep_free_blocks)
    if request.max_grant_tokens < 1 or min(counts) < 0:
        raise UsageError(
            Reason.INVALID_ARGUMENT,
            f"request {request.handle} wants {request.max_grant_tokens} tokens granted "
            f"(at least 1) and counts {counts} (at least 0)",
        )
    if request.keep_free_blocks and len(request.keep_free_blocks) != len(plan.classes):
        raise UsageError(
            Reason.INVALID_ARGUMENT,
            f"the pool has {len(plan.classes)} size classes, not {len(request.keep_free_blocks)}",
        )


def check_counts(plan: Plan, counts: Sequence[int]) -> None:
    """One count of at least 0 per group."""
    if len(counts) != len(plan.groups) or min(counts) < 0:
        raise UsageError(
            Reason.INVALID_ARGUMENT,
            f"expected {len(plan.groups)} counts of at least 0, got {list(counts)}",
        )


def check_group(plan: Plan, group: GroupId) -> None:
    """The group exists."""
    if not 0 <= group < len(plan.groups):
        raise UsageError(
            Reason.UNKNOWN_GROUP, f"groups run from 0 to {len(plan.groups) - 1}, not {group}"
        )


def check_blocks(plan: Plan, group: GroupId, blocks: Sequence[BlockId]) -> None:
    """The group and its blocks exist; the null block is nobody's."""
    check_group(plan, group)
    num_blocks = plan.classes[plan.class_of_group[group]].num_blocks
    for block in blocks:
        if not 0 < block < num_blocks:
            raise UsageError(
                Reason.UNKNOWN_BLOCK,
                f"blocks of group {group} run from 1 to {num_blocks - 1}, not {block}",
            )


def check_ahead(request: AheadRequest) -> None:
    """One count of at least 0 per request, and something to grant it from."""
    if len(request.handles) != len(request.num_blocks) or min(request.num_blocks, default=0) < 0:
        raise UsageError(
            Reason.INVALID_ARGUMENT,
            f"expected {len(request.handles)} counts of at least 0, got {request.num_blocks}",
        )


def check_commit(  # noqa: PLR0913, PLR0917 - a commit, and all it is checked against
    store: BlockStore,
    lease: Lease,
    record: RequestRecord,
    handle: Handle,
    kind: KindId,
    row: Row,
) -> None:
    """Only its sole owner may commit a block, and only once; leased blocks are the client's own."""
    plan = store.plan
    if not 0 <= kind < len(plan.kinds) or len(row) != len(plan.kinds[kind]):
        raise UsageError(Reason.UNKNOWN_GROUP, f"kind {kind} has no rows like {row}")
    check_blocks(plan, plan.kinds[kind][0], row)
    size_class = plan.class_of_kind(kind)
    for group, block in zip(plan.kinds[kind], row, strict=True):
        if block in lease.blocks[group]:
            continue
        if not store.was_spent_by(block, handle, group) and block not in record.held[group]:
            raise UsageError(
                Reason.NOT_HELD, f"request {handle} does not hold block {block} in group {group}"
            )
        if store.num_references(size_class, block) != 1:
            raise UsageError(
                Reason.NOT_SOLE_OWNER, f"block {block} of group {group} has other users"
            )
        if store.commitment(size_class, block) is not None:
            raise UsageError(
                Reason.ALREADY_COMMITTED, f"block {block} of group {group} has a hash already"
            )
