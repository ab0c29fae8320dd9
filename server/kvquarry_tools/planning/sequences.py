"""How many sequences may run at once, and what to change where more are wished."""

from dataclasses import dataclass, replace

from kvquarry_core.errors import PlanError
from kvquarry_core.plan import GroupSpec, Plan, make_plan
from kvquarry_tools.errors import InvalidOption
from kvquarry_tools.models import ServedModel
from kvquarry_tools.planning.least import least_memory
from kvquarry_tools.planning.pools import MixedPool, most_requests
from kvquarry_tools.planning.sizes import count

_SMALLER_STATE_DTYPE = "bfloat16"
#: More than any scheduler steps through.
_MOST_WISHED = 1_000_000


@dataclass(frozen=True, slots=True)
class SequenceLimit:
    """What a wished ``--max-num-seqs`` comes to.

    Attributes:
        wished: The number asked for.
        largest: The most requests, of one token each, that run at once.
        memory_bytes: The least memory of one worker, in whole MiB, that holds as many as wished;
            None: they fit, or no worker has so much.
        largest_with_smaller_states: The most with states of 16 bits; None: they are that small.
    """

    wished: int
    largest: int
    memory_bytes: int | None
    largest_with_smaller_states: int | None

    @property
    def fits(self) -> bool:
        """Whether as many as wished run at once."""
        return self.wished <= self.largest


def sequence_limit(
    served: ServedModel, plan: Plan, memory_bytes: int, wished: int
) -> SequenceLimit:
    """Compare a wish with what fits.

    Raises:
        InvalidOption: The wish is no number from 1 to a million.
    """
    if wished < 1:
        raise InvalidOption(f"--max-num-seqs {wished} is too small; give a number from 1 on")
    if wished > _MOST_WISHED:
        raise InvalidOption(
            f"--max-num-seqs {wished} is more than any engine runs; give {count(_MOST_WISHED)} at "
            "most"
        )
    largest = most_requests(MixedPool(plan), 1)
    if wished <= largest:
        return SequenceLimit(wished, largest, None, None)
    return SequenceLimit(
        wished,
        largest,
        least_memory(served.groups, lambda plan: MixedPool(plan).admits(wished, 1)),
        _with_smaller_states(served, memory_bytes, largest),
    )


def _with_smaller_states(served: ServedModel, memory_bytes: int, largest: int) -> int | None:
    smaller = replace(served.serving, state_dtype=_SMALLER_STATE_DTYPE)
    reached = _largest(served.model.served(smaller).groups, memory_bytes)
    return reached if reached > largest else None


def _largest(groups: tuple[GroupSpec, ...], memory_bytes: int) -> int:
    try:
        return most_requests(MixedPool(make_plan(groups, memory_bytes)), 1)
    except PlanError:
        return 0
