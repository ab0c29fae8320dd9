"""The least memory that holds what was asked for."""

from collections.abc import Callable, Sequence

from kvquarry_core.errors import PlanError, Reason
from kvquarry_core.plan import GroupSpec, Plan, make_plan
from kvquarry_tools.planning.sizes import MOST_BYTES
from kvquarry_tools.search import bracket

#: Memory is named in whole steps of this.
_STEP_BYTES = 1 << 20
#: Slabs change their size with the memory, so that a little less may do where a little more does
#: not: so many steps are looked back.
_STEPS_BACK = 64


def least_memory(groups: Sequence[GroupSpec], suffices: Callable[[Plan], bool]) -> int | None:
    """Bytes of one worker, in whole MiB, the same whatever was tried before.

    None: no worker has so much.
    """

    def is_enough(steps: int) -> bool:
        plan = _plan_or_none(groups, steps * _STEP_BYTES)
        return plan is not None and suffices(plan)

    found = bracket(lambda steps: not is_enough(steps), 0, MOST_BYTES // _STEP_BYTES)
    if found is None:
        return None
    _, enough = found
    for steps in range(enough - 1, max(enough - 1 - _STEPS_BACK, 0), -1):
        if is_enough(steps):
            enough = steps
    return enough * _STEP_BYTES


def _plan_or_none(groups: Sequence[GroupSpec], memory_bytes: int) -> Plan | None:
    """None: the memory holds no pool at all.

    Raises:
        PlanError: No memory does.
    """
    try:
        return make_plan(groups, memory_bytes)
    except PlanError as error:
        if error.reason is Reason.POOL_TOO_SMALL:
            return None
        raise
