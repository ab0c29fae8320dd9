"""Between the core's values and the wire's messages: the client's half.

Nowhere else in the client are a message's fields touched.
"""

from collections.abc import Iterable, Sequence
from typing import cast

from kvquarry.v1alpha import plan_pb2, pool_pb2
from kvquarry_client.errors import Nonsense, PlanMismatch, ServiceError
from kvquarry_client.ledger import Eviction
from kvquarry_core.ids import BlockHash, BlockId, ClassId, GroupId, Handle, KindId
from kvquarry_core.luxury import FreeMemory
from kvquarry_core.messages import (
    Admission,
    AdmitRequest,
    AheadGrant,
    AheadRequest,
    Answer,
    Ask,
    FullRows,
    Grant,
    GrowRequest,
    LeaseRequest,
    Pinned,
    PinRefusal,
    PinRefusalCause,
    PinRequest,
    Refusal,
    RefusalCause,
)
from kvquarry_core.plan import GroupKind, GroupSpec, Plan
from kvquarry_core.policies import PolicyNames
from kvquarry_core.relocation import Move

_GROUP_KINDS = {
    GroupKind.FULL_ATTENTION: plan_pb2.GROUP_KIND_FULL_ATTENTION,
    GroupKind.RECURRENT_STATE: plan_pb2.GROUP_KIND_RECURRENT_STATE,
    GroupKind.SLIDING_WINDOW: plan_pb2.GROUP_KIND_SLIDING_WINDOW,
    GroupKind.CHUNKED_LOCAL: plan_pb2.GROUP_KIND_CHUNKED_LOCAL,
    GroupKind.CROSS_ATTENTION: plan_pb2.GROUP_KIND_CROSS_ATTENTION,
    GroupKind.SCRATCH: plan_pb2.GROUP_KIND_SCRATCH,
}
_CAUSES = {
    pool_pb2.REFUSAL_CAUSE_SHORTAGE: RefusalCause.SHORTAGE,
    pool_pb2.REFUSAL_CAUSE_SAME_STEP: RefusalCause.SAME_STEP,
    pool_pb2.REFUSAL_CAUSE_NEVER_FITS: RefusalCause.NEVER_FITS,
}
_PIN_CAUSES = {
    pool_pb2.PIN_REFUSAL_CAUSE_NOTHING_CACHED: PinRefusalCause.NOTHING_CACHED,
    pool_pb2.PIN_REFUSAL_CAUSE_OVER_CAP: PinRefusalCause.OVER_CAP,
    pool_pb2.PIN_REFUSAL_CAUSE_PROMISED: PinRefusalCause.PROMISED,
    pool_pb2.PIN_REFUSAL_CAUSE_TOO_MANY: PinRefusalCause.TOO_MANY,
}


#: A request that is over gives up all of its blocks at once.
_WEIGHT_OF_FREE = 32


class BatchBuilder:
    """Gathers operations in order; neighbours of one sort share the columns of one message."""

    def __init__(self) -> None:
        self._message = pool_pb2.AttachRequest()
        # Filled where they stand: a message that is put into another one is copied.
        self._operations = self._message.batch.operations
        self._last_sort = ""
        #: How much work the batch is for the service: blocks, roughly.
        self.weight = 0

    def __len__(self) -> int:
        """Operations, as the service counts them."""
        return len(self._operations)

    def finish(self, number: int, *, quiet: bool) -> pool_pb2.AttachRequest:
        """The batch so far; the builder starts anew."""
        message, self._message = self._message, pool_pb2.AttachRequest()
        self._operations = self._message.batch.operations
        self._last_sort, self.weight = "", 0
        message.batch.number = number
        message.batch.quiet = quiet
        return message

    def ask(self, ask: Ask) -> None:
        """Add whatever has to be answered."""
        match ask:
            case AdmitRequest():
                self._admit(ask)
            case GrowRequest():
                grow = self._new().grow
                grow.handle = ask.handle
                grow.block_counts.extend(ask.num_blocks)
            case LeaseRequest():
                self._new().lease.block_counts.extend(ask.num_blocks)
            case AheadRequest():
                ahead = self._new().grant_ahead
                ahead.handles.extend(ask.handles)
                ahead.block_counts.extend(ask.num_blocks)
            case PinRequest():
                pin = self._new().pin
                pin.pin_id = ask.pin_id
                pin.hashes.extend(ask.hashes)
                pin.ttl_seconds = ask.ttl_s

    def unpin(self, pin_id: str) -> None:
        """Add a pin to an Unpin."""
        self._last("unpin").unpin.pin_ids.append(pin_id)

    def reset_cache(self) -> None:
        """Add a ResetCache."""
        self._new().reset_cache.SetInParent()

    def take(self, handle: Handle, group: GroupId, num_blocks: int) -> None:
        """Add a row to a Take."""
        columns = self._last("take").take
        columns.handles.append(handle)
        columns.groups.append(group)
        columns.block_counts.append(num_blocks)
        self.weight += 1

    def settle(self, handle: Handle) -> None:
        """Add a request to a Settle."""
        self._last("settle").settle.handles.append(handle)

    def give_back(self, group: GroupId, blocks: Sequence[BlockId]) -> None:
        """Add blocks to a GiveBack."""
        columns = self._last("give_back").give_back
        columns.groups.append(group)
        columns.block_counts.append(len(blocks))
        columns.blocks.extend(blocks)

    def commit(self, rows: FullRows) -> None:
        """Add a run of rows to a Commit."""
        columns = self._last("commit").commit
        columns.handles.append(rows.handle)
        columns.kinds.append(rows.kind)
        columns.row_counts.append(len(rows.hashes))
        columns.hashes.extend(rows.hashes)
        columns.blocks.extend(rows.blocks)
        self.weight += len(rows.hashes)

    def drop(self, handle: Handle, group: GroupId, blocks: Sequence[BlockId]) -> None:
        """Add blocks to a Drop."""
        columns = self._last("drop").drop
        columns.handles.append(handle)
        columns.groups.append(group)
        columns.block_counts.append(len(blocks))
        columns.blocks.extend(blocks)

    def free(self, handle: Handle) -> None:
        """Add a request to a Free."""
        self._last("free").free.handles.append(handle)
        self.weight += _WEIGHT_OF_FREE

    def begin_step(self) -> None:
        """Add a BeginStep."""
        self._new().begin_step.SetInParent()

    def compare_books(self, revision: int, digest: bytes) -> None:
        """Add a CompareBooks."""
        books = self._new().compare_books
        books.revision = revision
        books.digest = digest

    def forget(self, group: GroupId, blocks: Sequence[BlockId]) -> None:
        """Add a Forget."""
        forget = self._new().forget
        forget.group = group
        forget.blocks.extend(blocks)

    def _admit(self, request: AdmitRequest) -> None:
        admit = self._new().admit
        admit.handle = request.handle
        admit.hashes.extend(request.hashes)
        admit.token_count = request.num_tokens
        admit.max_hit_tokens = request.max_hit_tokens
        admit.max_grant_tokens = request.max_grant_tokens
        admit.lookahead_tokens = request.lookahead_tokens
        admit.must_fit_tokens = request.must_fit_tokens
        admit.keep_free_block_counts.extend(request.keep_free_blocks)
        admit.states_are_leased = request.states_are_leased
        admit.in_flight_tokens = request.in_flight_tokens
        admit.encoder_tokens = request.encoder_tokens
        admit.priority = request.priority

    def _last(self, sort: str) -> pool_pb2.Operation:
        """The last operation if it is of this sort, else a new one."""
        if sort != self._last_sort:
            operation = self._new()
            self._last_sort = sort
            return operation
        return self._operations[-1]

    def _new(self) -> pool_pb2.Operation:
        """A new operation that no later one joins."""
        self._last_sort = ""
        return self._operations.add()


def open_request(  # noqa: PLR0913, PLR0917 - a pool's whole description
    engine: str,
    groups: Iterable[GroupSpec],
    pool_bytes: int,
    num_workers: int,
    model: str,
    policies: PolicyNames,
) -> pool_pb2.OpenPoolRequest:
    """The message that opens a pool."""
    return pool_pb2.OpenPoolRequest(
        engine=engine,
        groups=[_group_spec(group) for group in groups],
        pool_size_bytes=pool_bytes,
        worker_count=num_workers,
        model=model,
        policies=pool_pb2.Policies(
            placement=policies.placement,
            eviction=policies.eviction,
            relocation=policies.relocation,
        ),
    )


def check_same_plan(ours: Plan, theirs: plan_pb2.Plan) -> None:
    """Refuse a service that cut the pool differently.

    Raises:
        PlanMismatch: Always a difference in versions, since both use the same function.
    """
    classes = [
        (c.page_bytes, c.stride_bytes, c.blocks_per_slab, c.block_count)
        for c in theirs.size_classes
    ]
    expected = [
        (c.page_bytes, c.stride_bytes, c.blocks_per_slab, c.num_blocks) for c in ours.classes
    ]
    same = (
        classes == expected
        and list(theirs.class_of_group) == list(ours.class_of_group)
        and theirs.region_count == ours.num_regions
        and theirs.pool_size_bytes == ours.pool_bytes
    )
    if not same:
        raise PlanMismatch(
            f"the service cut the pool into {classes}, this client into {expected}: "
            "install the same version of kvquarry on both sides"
        )


def answers(result: pool_pb2.BatchResult, num_asks: int) -> list[Answer]:
    """The answers to a batch's asks, in order.

    Raises:
        Nonsense: They are not as many as the asks, or not such answers.
    """
    if len(result.answers) != num_asks:
        raise Nonsense(
            f"batch {result.number} asked for {num_asks} answers and got {len(result.answers)}"
        )
    return [answer(one) for one in result.answers]


def is_cache_reset(result: pool_pb2.BatchResult) -> bool:
    """The answer to a ResetCache.

    Raises:
        Nonsense: There is none.
    """
    if not result.answers or result.answers[-1].WhichOneof("answer") != "reset_cache":
        raise Nonsense(f"batch {result.number} was to reset the cache and has another answer")
    return result.answers[-1].reset_cache.done


def answer(message: pool_pb2.Answer) -> Answer:
    """The answer to an Ask.

    Raises:
        Nonsense: It is none.
    """
    match message.WhichOneof("answer"):
        case "refusal":
            return _refusal(message.refusal)
        case "admission":
            return _admission(message.admission)
        case "ahead":
            return AheadGrant(tuple(_grant(grant) for grant in message.ahead.grants))
        case "pinned":
            pinned = message.pinned
            return Pinned(pinned.token_count, pinned.pinned_size_bytes, pinned.cap_size_bytes)
        case "pin_refusal":
            return _pin_refusal(message.pin_refusal)
        case "grant":
            return _grant(message.grant)
        case other:
            raise Nonsense(f"an ask was answered with {other}")


def evictions(result: pool_pb2.BatchResult) -> list[Eviction]:
    """What the pool forgot."""
    return [
        Eviction(KindId(one.kind), BlockHash(block_hash))
        for one in result.evictions
        for block_hash in one.hashes
    ]


def num_refused(result: pool_pb2.BatchResult) -> int:
    """Asks that changed nothing."""
    refusals = ("refusal", "pin_refusal")
    return sum(one.WhichOneof("answer") in refusals for one in result.answers)


def used_fraction(result: pool_pb2.BatchResult) -> float:
    """Share of the pool's bytes in use."""
    return result.usage.used_size_bytes / max(result.usage.usable_size_bytes, 1)


def free_memory(result: pool_pb2.BatchResult) -> FreeMemory:
    """Memory that nobody uses."""
    usage = result.usage
    return FreeMemory(
        [one.free_block_count for one in usage.size_classes],
        usage.unassigned_slab_count,
        [one.cached_block_count for one in usage.size_classes],
    )


def no_memory_known(plan: plan_pb2.Plan) -> FreeMemory:
    """Before the service has answered a batch."""
    nothing = [0] * len(plan.size_classes)
    return FreeMemory(nothing, 0, nothing)


def batch_error(result: pool_pb2.BatchResult) -> ServiceError | None:
    """The mistake the service found in a batch, if any."""
    if not result.HasField("error"):
        return None
    return ServiceError(result.error.reason, result.error.message, result.error.metadata)


def _group_spec(group: GroupSpec) -> plan_pb2.GroupSpec:
    return plan_pb2.GroupSpec(
        kind=_GROUP_KINDS[group.kind],
        block_tokens=group.block_tokens,
        page_bytes=group.page_bytes,
        layer_count=group.num_layers,
        speculative_block_count=group.num_speculative_blocks,
        alignment_bytes=group.alignment_bytes,
        window_token_count=group.window_tokens,
        is_draft=group.is_draft,
    )


def _admission(admission: pool_pb2.Admission) -> Admission:
    return Admission(
        admission.hit_tokens,
        admission.longest_tokens,
        _block_lists(admission.hit_blocks),
        _grant(admission.grant),
    )


def _grant(grant: pool_pb2.Grant) -> Grant:
    return Grant(_block_lists(grant.blocks), _block_lists(grant.dirty), _moves(grant.moves))


def _moves(moves: pool_pb2.Moves) -> tuple[Move, ...]:
    columns = zip(moves.size_classes, moves.sources, moves.targets, strict=True)
    return tuple(
        Move(ClassId(size_class), BlockId(source), BlockId(target))
        for size_class, source, target in columns
    )


def _refusal(refusal: pool_pb2.Refusal) -> Refusal:
    cause = _CAUSES.get(refusal.cause)
    if cause is None:
        raise Nonsense(f"a request was refused for cause {refusal.cause}, which is unknown")
    return Refusal(
        cause,
        refusal.hit_tokens,
        refusal.longest_tokens,
        tuple(refusal.wanted_block_counts),
        tuple(refusal.available_block_counts),
    )


def _pin_refusal(refusal: pool_pb2.PinRefusal) -> PinRefusal:
    cause = _PIN_CAUSES.get(refusal.cause)
    if cause is None:
        raise Nonsense(f"a pin was refused for cause {refusal.cause}, which is unknown")
    return PinRefusal(
        cause, refusal.wanted_size_bytes, refusal.pinned_size_bytes, refusal.cap_size_bytes
    )


def _block_lists(lists: Iterable[pool_pb2.BlockList]) -> tuple[list[BlockId], ...]:
    return tuple(cast("list[BlockId]", list(one.blocks)) for one in lists)
