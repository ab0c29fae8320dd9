"""What a batch comes to."""

from collections.abc import Sequence
from dataclasses import dataclass

from kvquarry_core.ids import BlockHash, BlockId, KindId
from kvquarry_core.messages import Admission, AheadGrant, Grant
from kvquarry_core.messages import Answer as PoolAnswer
from kvquarry_core.usage import PoolUsage
from kvquarry_server.errors import WireError


@dataclass(frozen=True, slots=True)
class CacheReset:
    """Whether the cache could be reset."""

    is_done: bool


Answer = PoolAnswer | CacheReset


@dataclass(frozen=True, slots=True)
class Eviction:
    """Rows of one kind that can no longer be found, in the order in which they went."""

    kind: KindId
    hashes: tuple[BlockHash, ...]


@dataclass(frozen=True, slots=True)
class BatchOutcome:
    """The answer to a batch; a repetition of the batch gets the very same.

    Attributes:
        number: The batch's number.
        revision: The pool's, after the batch.
        answers: Of its operations that have one, in order.
        error: The mistake at which the batch stopped; what came before it was applied.
        evictions: What became unfindable since the batch before.
        usage: The pool's, after the batch; None for a quiet one, which is not answered.
    """

    number: int
    revision: int
    answers: tuple[Answer, ...]
    error: WireError | None
    evictions: tuple[Eviction, ...]
    usage: PoolUsage | None

    @property
    def num_entries(self) -> int:
        """Block ids and hashes in it: what keeping it costs."""
        if not (self.answers or self.evictions):
            return 0
        evicted = sum(len(eviction.hashes) for eviction in self.evictions)
        return evicted + sum(_num_blocks(answer) for answer in self.answers)


def _num_blocks(answer: Answer) -> int:
    match answer:
        case Admission():
            return _total(answer.hit_blocks) + _num_blocks(answer.grant)
        case Grant():
            return _total(answer.blocks) + _total(answer.dirty)
        case AheadGrant():
            return sum(1 + _num_blocks(grant) for grant in answer.grants)
        case _:
            return 1


def _total(lists: Sequence[Sequence[BlockId]]) -> int:
    return sum(len(blocks) for blocks in lists)
