"""What an admission leaves free for requests that run already, so that few are preempted.

A pool of one large block size reserves without knowing it: whoever is admitted gets a whole block
and grows into the rest of it. Blocks cut to measure leave no such rest, so it is counted here.
"""

from kvquarry_core.group_rules import rule_for
from kvquarry_core.ids import KindId
from kvquarry_core.plan import GroupKind, Plan

#: Tokens that each running request may still generate before it waits for somebody's end.
_TOKENS = 64
#: So many running requests share a spare state: each needs a second one for one step now and then.
_REQUESTS_PER_STATE = 8


class DecodeReserve:
    """Blocks by size class that stay free beside an admission."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        # Pools of one size are scheduled as vLLM schedules them.
        self._is_on = len(plan.classes) > 1

    def blocks(self, num_running: int, num_prompts: int) -> list[int]:
        """By size class.

        Args:
            num_running: Requests that run.
            num_prompts: Those among them, and the one to be admitted, that have chunks of their
                prompt ahead: each needs a second state as soon as it passes a block boundary.
        """
        blocks = [0] * len(self._plan.classes)
        if not (self._is_on and num_running):
            return blocks
        for index, members in enumerate(self._plan.kinds):
            spec = self._plan.spec_of_kind(KindId(index))
            size_class = self._plan.class_of_kind(KindId(index))
            if spec.kind is GroupKind.RECURRENT_STATE:
                rows = num_prompts + -(-num_running // _REQUESTS_PER_STATE)
                blocks[size_class] += len(members) * rows
            elif rule_for(spec).grows:
                blocks[size_class] += len(members) * num_running * -(-_TOKENS // spec.block_tokens)
        return blocks
