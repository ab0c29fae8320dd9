"""Token slots that requests have and do not use yet, see :mod:`kvquarry_core.slot_use`.

They are counted when a message is sent, and nothing is kept up to date in between: a decode step
that has nothing to say costs nothing.
"""

from collections.abc import Callable, Sequence
from functools import partial

from kvquarry_client.records import ShadowRequest
from kvquarry_client.roster import Roster
from kvquarry_client.stock import StateStock
from kvquarry_core.ids import KindId
from kvquarry_core.plan import GroupKind, Plan

_Count = Callable[[Sequence[ShadowRequest], Sequence[int]], int]


class EmptySlots:
    """Counts them, by kind."""

    def __init__(self, plan: Plan, roster: Roster, stock: StateStock) -> None:
        self._roster = roster
        self._counts = [_count_of(plan, KindId(kind), stock) for kind in range(len(plan.kinds))]

    def count(self) -> list[int]:
        """As of now: those who were looked up and not started have spent nothing yet.

        Blocks that only rejected draft tokens reached count as full until their request comes that
        far again.
        """
        everybody = (*self._roster.live.values(), *self._roster.detached.values())
        running = [one for one in everybody if one.has_started]
        num_slots = [one.num_slots for one in running]
        return [count(running, num_slots) for count in self._counts]


def _count_of(plan: Plan, kind: KindId, stock: StateStock) -> _Count:
    spec = plan.spec_of_kind(kind)
    match spec.kind:
        case GroupKind.RECURRENT_STATE:
            return lambda _running, _num_slots: stock.num_rows(kind) * spec.block_tokens
        case GroupKind.CROSS_ATTENTION:
            return partial(_of_encoders, spec.block_tokens)
        case GroupKind.SCRATCH:
            return lambda _running, _num_slots: 0
        case _:
            return partial(_of_last_blocks, spec.block_tokens)


def _of_last_blocks(
    block_tokens: int, _running: Sequence[ShadowRequest], num_slots: Sequence[int]
) -> int:
    """Tables grow block by block, so only the last block of each can have room."""
    return sum([-num % block_tokens for num in num_slots])


def _of_encoders(
    block_tokens: int, running: Sequence[ShadowRequest], _num_slots: Sequence[int]
) -> int:
    return sum([-one.encoder_tokens % block_tokens for one in running])
