"""Answers to batches, and usage, to the wire."""

from collections.abc import Iterable, Sequence

from kvquarry.v1alpha import pool_pb2
from kvquarry_core.ids import BlockId
from kvquarry_core.messages import Admission, AheadGrant, Grant, Refusal, RefusalCause
from kvquarry_core.relocation import Move
from kvquarry_core.usage import PoolUsage
from kvquarry_server.errors import WireError
from kvquarry_server.outcomes import Answer, BatchOutcome, CacheReset, Eviction

_WIRE_CAUSE_OF = {
    RefusalCause.SHORTAGE: pool_pb2.REFUSAL_CAUSE_SHORTAGE,
    RefusalCause.SAME_STEP: pool_pb2.REFUSAL_CAUSE_SAME_STEP,
    RefusalCause.NEVER_FITS: pool_pb2.REFUSAL_CAUSE_NEVER_FITS,
}
# A caller may ask for more blocks than the wire can count; no pool has that many.
_MOST_COUNTED = (1 << 32) - 1


def outcome_to_wire(boot_id: str, outcome: BatchOutcome) -> pool_pb2.AttachResponse:
    """The answer to a batch."""
    result = pool_pb2.BatchResult(
        number=outcome.number,
        answers=[_answer(answer) for answer in outcome.answers],
        error=None if outcome.error is None else _error(outcome.error),
        evictions=[_eviction(eviction) for eviction in outcome.evictions],
        usage=None if outcome.usage is None else usage_to_wire(outcome.usage),
    )
    return pool_pb2.AttachResponse(boot_id=boot_id, revision=outcome.revision, result=result)


def usage_to_wire(usage: PoolUsage) -> pool_pb2.PoolUsage:
    """Where a pool's blocks are."""
    return pool_pb2.PoolUsage(
        size_classes=[
            pool_pb2.ClassUsage(
                free_block_count=one.free,
                cached_block_count=one.cached,
                active_block_count=one.active,
                granted_block_count=one.granted,
            )
            for one in usage.classes
        ],
        unassigned_slab_count=usage.unassigned_slabs,
        used_size_bytes=usage.used_bytes,
        usable_size_bytes=usage.usable_bytes,
    )


def _answer(answer: Answer) -> pool_pb2.Answer:
    match answer:
        case Admission():
            return pool_pb2.Answer(admission=_admission(answer))
        case Grant():
            return pool_pb2.Answer(grant=_grant(answer))
        case AheadGrant():
            grants = [_grant(grant) for grant in answer.grants]
            return pool_pb2.Answer(ahead=pool_pb2.AheadGrant(grants=grants))
        case Refusal():
            return pool_pb2.Answer(refusal=_refusal(answer))
        case CacheReset():
            return pool_pb2.Answer(reset_cache=pool_pb2.ResetCacheAnswer(done=answer.is_done))


def _admission(admission: Admission) -> pool_pb2.Admission:
    return pool_pb2.Admission(
        hit_tokens=admission.hit_tokens,
        longest_tokens=admission.longest_tokens,
        hit_blocks=_block_lists(admission.hit_blocks),
        grant=_grant(admission.grant),
    )


def _grant(grant: Grant) -> pool_pb2.Grant:
    return pool_pb2.Grant(
        blocks=_block_lists(grant.blocks),
        dirty=_block_lists(grant.dirty),
        moves=_moves(grant.moves) if grant.moves else None,
    )


def _moves(moves: Sequence[Move]) -> pool_pb2.Moves:
    return pool_pb2.Moves(
        size_classes=[move.size_class for move in moves],
        sources=[move.source for move in moves],
        targets=[move.target for move in moves],
    )


def _refusal(refusal: Refusal) -> pool_pb2.Refusal:
    return pool_pb2.Refusal(
        cause=_WIRE_CAUSE_OF[refusal.cause],
        hit_tokens=refusal.hit_tokens,
        longest_tokens=refusal.longest_tokens,
        wanted_block_counts=[min(count, _MOST_COUNTED) for count in refusal.wanted_blocks],
        available_block_counts=refusal.available_blocks,
    )


def _block_lists(lists: Iterable[Sequence[BlockId]]) -> list[pool_pb2.BlockList]:
    return [pool_pb2.BlockList(blocks=blocks) for blocks in lists]


def _eviction(eviction: Eviction) -> pool_pb2.Eviction:
    return pool_pb2.Eviction(kind=eviction.kind, hashes=eviction.hashes)


def _error(error: WireError) -> pool_pb2.Error:
    return pool_pb2.Error(reason=error.reason.value, message=error.message, metadata=error.metadata)
