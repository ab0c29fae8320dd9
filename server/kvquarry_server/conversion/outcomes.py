"""Answers to batches, and usage, to the wire."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from kvquarry.v1alpha import pool_pb2
from kvquarry_core.ids import BlockId
from kvquarry_core.messages import (
    Admission,
    AheadGrant,
    Grant,
    Pinned,
    PinRefusal,
    PinRefusalCause,
    Refusal,
    RefusalCause,
)
from kvquarry_core.relocation import Move
from kvquarry_core.usage import PoolUsage
from kvquarry_server.errors import WireError
from kvquarry_server.outcomes import Answer, BatchOutcome, CacheReset

if TYPE_CHECKING:
    from google.protobuf.internal.containers import RepeatedCompositeFieldContainer

_WIRE_CAUSE_OF = {
    RefusalCause.SHORTAGE: pool_pb2.REFUSAL_CAUSE_SHORTAGE,
    RefusalCause.SAME_STEP: pool_pb2.REFUSAL_CAUSE_SAME_STEP,
    RefusalCause.NEVER_FITS: pool_pb2.REFUSAL_CAUSE_NEVER_FITS,
}
_WIRE_PIN_CAUSE_OF = {
    PinRefusalCause.NOTHING_CACHED: pool_pb2.PIN_REFUSAL_CAUSE_NOTHING_CACHED,
    PinRefusalCause.OVER_CAP: pool_pb2.PIN_REFUSAL_CAUSE_OVER_CAP,
    PinRefusalCause.PROMISED: pool_pb2.PIN_REFUSAL_CAUSE_PROMISED,
    PinRefusalCause.TOO_MANY: pool_pb2.PIN_REFUSAL_CAUSE_TOO_MANY,
}
# A caller may ask for more blocks than the wire can count; no pool has that many.
_MOST_COUNTED = (1 << 32) - 1


def outcome_to_wire(boot_id: str, outcome: BatchOutcome) -> pool_pb2.AttachResponse:
    """The answer to a batch.

    Filled from the outside in: a message that is put into another one is copied.
    """
    response = pool_pb2.AttachResponse(boot_id=boot_id, revision=outcome.revision)
    result = response.result
    result.number = outcome.number
    for answer in outcome.answers:
        _fill_answer(result.answers.add(), answer)
    if outcome.error is not None:
        result.error.MergeFrom(_error(outcome.error))
    for eviction in outcome.evictions:
        result.evictions.add(kind=eviction.kind, hashes=eviction.hashes)
    if outcome.usage is not None:
        _fill_usage(result.usage, outcome.usage)
    return response


def usage_to_wire(usage: PoolUsage) -> pool_pb2.PoolUsage:
    """Where a pool's blocks are."""
    message = pool_pb2.PoolUsage()
    _fill_usage(message, usage)
    return message


def _fill_usage(message: pool_pb2.PoolUsage, usage: PoolUsage) -> None:
    for one in usage.classes:
        message.size_classes.add(
            free_block_count=one.free,
            cached_block_count=one.cached,
            active_block_count=one.active,
            granted_block_count=one.granted,
            null_block_count=one.null,
        )
    message.unassigned_slab_count = usage.unassigned_slabs
    message.used_size_bytes = usage.used_bytes
    message.usable_size_bytes = usage.usable_bytes


def _fill_answer(message: pool_pb2.Answer, answer: Answer) -> None:
    match answer:
        case Admission():
            _fill_admission(message.admission, answer)
        case Grant():
            _fill_grant(message.grant, answer)
        case AheadGrant():
            message.ahead.SetInParent()
            for grant in answer.grants:
                _fill_grant(message.ahead.grants.add(), grant)
        case Refusal():
            _fill_refusal(message.refusal, answer)
        case CacheReset():
            message.reset_cache.done = answer.is_done
            message.reset_cache.SetInParent()
        case Pinned():
            message.pinned.token_count = answer.num_tokens
            message.pinned.pinned_size_bytes = answer.pinned_bytes
            message.pinned.cap_size_bytes = answer.cap_bytes
        case PinRefusal():
            message.pin_refusal.cause = _WIRE_PIN_CAUSE_OF[answer.cause]
            message.pin_refusal.wanted_size_bytes = answer.wanted_bytes
            message.pin_refusal.pinned_size_bytes = answer.pinned_bytes
            message.pin_refusal.cap_size_bytes = answer.cap_bytes


def _fill_admission(message: pool_pb2.Admission, admission: Admission) -> None:
    message.hit_tokens = admission.hit_tokens
    message.longest_tokens = admission.longest_tokens
    if admission.hit_tokens:
        _fill_lists(message.hit_blocks, admission.hit_blocks)
    _fill_grant(message.grant, admission.grant)


def _fill_grant(message: pool_pb2.Grant, grant: Grant) -> None:
    message.SetInParent()
    _fill_lists(message.blocks, grant.blocks)
    if any(grant.dirty):
        message.all_dirty = grant.dirty == grant.blocks
        if not message.all_dirty:
            _fill_lists(message.dirty, grant.dirty)
    if grant.moves:
        message.moves.MergeFrom(_moves(grant.moves))


def _fill_lists(
    lists: "RepeatedCompositeFieldContainer[pool_pb2.BlockList]",
    columns: Iterable[Sequence[BlockId]],
) -> None:
    for blocks in columns:
        lists.add().blocks.extend(blocks)


def _fill_refusal(message: pool_pb2.Refusal, refusal: Refusal) -> None:
    message.cause = _WIRE_CAUSE_OF[refusal.cause]
    message.hit_tokens = refusal.hit_tokens
    message.longest_tokens = refusal.longest_tokens
    message.wanted_block_counts.extend(min(one, _MOST_COUNTED) for one in refusal.wanted_blocks)
    message.available_block_counts.extend(refusal.available_blocks)


def _moves(moves: Sequence[Move]) -> pool_pb2.Moves:
    return pool_pb2.Moves(
        size_classes=[move.size_class for move in moves],
        sources=[move.source for move in moves],
        targets=[move.target for move in moves],
    )


def _error(error: WireError) -> pool_pb2.Error:
    return pool_pb2.Error(reason=error.reason.value, message=error.message, metadata=error.metadata)
