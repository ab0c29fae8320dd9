"""What batches came to, from the wire."""

from collections.abc import Iterable, Sequence
from typing import cast

from kvquarry.v1alpha import plan_pb2, pool_pb2
from kvquarry_client.errors import Nonsense, ServiceError
from kvquarry_client.ledger import Eviction
from kvquarry_core.ids import BlockHash, BlockId, ClassId, KindId
from kvquarry_core.luxury import FreeMemory
from kvquarry_core.messages import (
    Admission,
    AheadGrant,
    Answer,
    Grant,
    Pinned,
    PinRefusal,
    PinRefusalCause,
    Refusal,
    RefusalCause,
)
from kvquarry_core.relocation import Move

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


def _admission(admission: pool_pb2.Admission) -> Admission:
    grant = _grant(admission.grant)
    hit_tokens = admission.hit_tokens
    hit_blocks = _block_lists(admission.hit_blocks) if hit_tokens else _nothing(grant.blocks)
    return Admission(hit_tokens, admission.longest_tokens, hit_blocks, grant)


def _grant(grant: pool_pb2.Grant) -> Grant:
    blocks = _block_lists(grant.blocks)
    dirty = blocks if grant.all_dirty else _block_lists(grant.dirty) or _nothing(blocks)
    return Grant(blocks, dirty, _moves(grant.moves) if grant.HasField("moves") else ())


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
    return cast("tuple[list[BlockId], ...]", tuple([one.blocks[:] for one in lists]))


def _nothing(by_group: Sequence[object]) -> tuple[list[BlockId], ...]:
    """An empty list for every group: what is not sent where it would be that."""
    return tuple([list[BlockId]() for _ in by_group])
