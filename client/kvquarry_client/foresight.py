"""What requests will need besides what they need now, so that one exchange brings both.

States: a request that passes a block boundary writes a second one before it gives up the first::

    step          1   2   3   4   5   6   7   8   9
    request a     .   .  [2]  .   .   .   .   .   .         [2] two states
    request b     .   .   .  [2]  .   .   .   .   .
    request c     .   .   .   .   .   .   .  [2]  .         the stock needs two, not three

All requests decode at one pace, so who meets whom at a boundary is known as soon as they start.
"""

from collections.abc import Sequence

from kvquarry_client.roster import Roster
from kvquarry_core.ids import KindId
from kvquarry_core.plan import Plan

#: Drafts are accepted or not, and then nobody keeps the pace: so many requests share a state.
_REQUESTS_PER_STATE = 8


class Foresight:
    """Looks ahead for all requests that run."""

    def __init__(self, plan: Plan, roster: Roster, *, num_steps: int) -> None:
        """``num_steps`` overlap."""
        self._plan = plan
        self._roster = roster
        # Who asks first in a step may come before the one whose state he could have had.
        self._num_steps = num_steps + 1

    def states(self, stocks: Sequence[bool], coming: Sequence[int]) -> list[int]:
        """Rows that will be needed at once besides those in use, by kind of those in stock.

        ``coming`` are the lengths of prompts that are about to be admitted.
        """
        rows = [0] * len(self._plan.kinds)
        decoding = self._roster.decoding() if any(stocks) else ()
        for index, is_stocked in enumerate(stocks):
            if is_stocked:
                kind = KindId(index)
                spec = self._plan.spec_of_kind(kind)
                distances = [one.tables[index].most_slots() - one.num_slots for one in decoding]
                distances += [-num_tokens % spec.block_tokens for num_tokens in coming]
                most = most_at_once(distances, spec.block_tokens, self._num_steps)
                if spec.num_speculative_blocks:
                    most = max(most, -(-len(decoding) // _REQUESTS_PER_STATE))
                rows[index] = self._roster.num_prompts + most
        return rows


def most_at_once(distances: Sequence[int], block_tokens: int, num_steps: int) -> int:
    """The most requests that pass a boundary within ``num_steps`` steps of each other, ever.

    Args:
        distances: Each request's, in tokens, to its next boundary.
        block_tokens: From one boundary to the next.
        num_steps: So long each of them needs two states.
    """
    at: dict[int, int] = {}
    for distance in distances:
        place = distance % block_tokens
        at[place] = at.get(place, 0) + 1
    steps = range(min(num_steps, block_tokens))
    met = [sum([at.get((place + step) % block_tokens, 0) for step in steps]) for place in at]
    return max(met, default=0)
