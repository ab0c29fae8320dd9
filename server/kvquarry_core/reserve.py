"""What an admission leaves free for requests that run already, so that few are preempted.

A pool of one large block size reserves without knowing it: whoever is admitted gets a whole block
and grows into the rest of it. Blocks cut to measure leave no such rest, so it is counted here.
"""

from dataclasses import dataclass

from kvquarry_core.group_rules import rule_for
from kvquarry_core.ids import ClassId, KindId
from kvquarry_core.plan import GroupKind, Plan

#: Tokens that each running request may still generate before it waits for somebody's end.
_TOKENS = 64
#: So many running requests share a spare state: each needs a second one for one step now and then.
_REQUESTS_PER_STATE = 8


@dataclass(frozen=True, slots=True)
class _Share:
    """What one kind keeps free.

    Attributes:
        size_class: Where its blocks are.
        num_groups: Blocks in a row.
        rows_each: Rows for each running request; None where they share spare states.
    """

    size_class: ClassId
    num_groups: int
    rows_each: int | None


class DecodeReserve:
    """Blocks by size class that stay free beside an admission."""

    def __init__(self, plan: Plan) -> None:
        self._nothing = [0] * len(plan.classes)
        # Pools of one size are scheduled as vLLM schedules them.
        kinds = range(len(plan.kinds)) if len(plan.classes) > 1 else ()
        self._shares = [_share_of(plan, KindId(index)) for index in kinds]

    def blocks(self, num_running: int, num_prompts: int) -> list[int]:
        """By size class.

        Args:
            num_running: Requests that run.
            num_prompts: Those among them, and the one to be admitted, that have chunks of their
                prompt ahead: each needs a second state as soon as it passes a block boundary.
        """
        blocks = self._nothing.copy()
        if not num_running:
            return blocks
        shared_rows = num_prompts + -(-num_running // _REQUESTS_PER_STATE)
        for share in self._shares:
            rows = shared_rows if share.rows_each is None else num_running * share.rows_each
            blocks[share.size_class] += share.num_groups * rows
        return blocks


def _share_of(plan: Plan, kind: KindId) -> _Share:
    spec, rows_each = plan.spec_of_kind(kind), None
    if spec.kind is not GroupKind.RECURRENT_STATE:
        rows_each = -(-_TOKENS // spec.block_tokens) if rule_for(spec).grows else 0
    return _Share(plan.class_of_kind(kind), len(plan.kinds[kind]), rows_each)
