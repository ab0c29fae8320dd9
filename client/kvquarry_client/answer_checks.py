"""What a service says is believed only if it could be true: ids of blocks that exist.

An id beyond the plan would end as an access outside of the tensors, in a worker, steps later.
Only the least and the greatest of each column are looked at, so this costs a fraction of what
reading the message does.
"""

from collections.abc import Iterable, Sequence
from typing import NoReturn

from kvquarry_client.errors import Nonsense
from kvquarry_core.ids import NULL_BLOCK, BlockId, GroupId
from kvquarry_core.messages import (
    Admission,
    AdmitRequest,
    AheadGrant,
    AheadRequest,
    Answer,
    Ask,
    Grant,
    GrowRequest,
    LeaseRequest,
    Pinned,
    PinRefusal,
    PinRequest,
    Refusal,
)
from kvquarry_core.plan import Plan
from kvquarry_core.relocation import Move


class AnswerChecks:
    """Knows what can be answered about a pool."""

    def __init__(self, plan: Plan) -> None:
        self._num_blocks = [size_class.num_blocks for size_class in plan.classes]
        self._num_blocks_of_group = [self._num_blocks[index] for index in plan.class_of_group]

    def check(self, ask: Ask, answer: Answer) -> None:
        """Raise unless an answer is one to an ask.

        Raises:
            Nonsense: It is another one's, of another size, or names blocks that do not exist.
        """
        match ask, answer:
            case PinRequest(), Pinned() | PinRefusal():
                return
            case ((AdmitRequest() | GrowRequest() | LeaseRequest() | AheadRequest()), Refusal()):
                return
            case AdmitRequest(), Admission():
                self._check_columns(answer.hit_blocks)
                self._check_grant(answer.grant)
            case ((GrowRequest() | LeaseRequest()), Grant()):
                self._check_grant(answer)
                self._check_counts(answer, ask.num_blocks)
            case AheadRequest(), AheadGrant() if len(answer.grants) == len(ask.handles):
                for grant in answer.grants:
                    self._check_grant(grant)
            case _:
                _raise(f"{type(ask).__name__} was answered with {type(answer).__name__}")

    def _check_grant(self, grant: Grant) -> None:
        self._check_columns(grant.blocks)
        if grant.dirty is not grant.blocks:
            self._check_columns(grant.dirty)
        self._check_moves(grant.moves)

    def _check_columns(self, columns: Sequence[Sequence[BlockId]]) -> None:
        """One column per group, of blocks that exist; the null block is nobody's."""
        if len(columns) != len(self._num_blocks_of_group):
            _raise(f"blocks of {len(columns)} groups, not of {len(self._num_blocks_of_group)}")
        for group, (blocks, num_blocks) in enumerate(
            zip(columns, self._num_blocks_of_group, strict=True)
        ):
            if blocks and not (min(blocks) > NULL_BLOCK and max(blocks) < num_blocks):
                _raise(
                    f"blocks {min(blocks)} to {max(blocks)} of group {GroupId(group)}, "
                    f"whose last one is {num_blocks - 1}"
                )

    def _check_counts(self, grant: Grant, wanted: Sequence[int]) -> None:
        granted = [len(blocks) for blocks in grant.blocks]
        if granted != list(wanted):
            _raise(f"{granted} blocks were granted where {list(wanted)} were asked for")

    def _check_moves(self, moves: Iterable[Move]) -> None:
        for move in moves:
            num_blocks = self._num_blocks[move.size_class : move.size_class + 1]
            if not num_blocks or not all(
                NULL_BLOCK < block < num_blocks[0] for block in (move.source, move.target)
            ):
                _raise(f"{move} is of blocks that do not exist")


def _raise(what: str) -> NoReturn:
    raise Nonsense(f"the service answered what cannot be: {what}")
