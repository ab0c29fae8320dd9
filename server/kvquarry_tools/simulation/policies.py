"""Plans and pools for what a user asks for, with errors that say what to change."""

from collections.abc import Sequence

from kvquarry_core.errors import PlanError, Reason, UsageError
from kvquarry_core.plan import GroupKind, GroupSpec, Plan, make_plan
from kvquarry_core.policies import PolicyNames, installed_policies
from kvquarry_core.pool import Pool
from kvquarry_core.work import TOKENS, Work
from kvquarry_tools.errors import InvalidOption
from kvquarry_tools.planning.least import least_memory
from kvquarry_tools.planning.sizes import mebibytes, memory

#: Kinds whose content is a number of bytes a token and a number a request.
PLAIN_KINDS = (GroupKind.FULL_ATTENTION, GroupKind.RECURRENT_STATE)
#: Kinds that a replay of a trace knows how to use.
REPLAYED_KINDS = (*PLAIN_KINDS, GroupKind.SLIDING_WINDOW, GroupKind.CHUNKED_LOCAL)


def pool_with(plan: Plan, names: PolicyNames, work: Work | None = None) -> Pool:
    """A pool that goes by policies of the core or of an installed package.

    Args:
        plan: How it is cut.
        names: The policies.
        work: What its model computes; None where nobody knows.

    Raises:
        InvalidOption: There is no policy of that name.
    """
    try:
        chosen = installed_policies().make(names)
    except UsageError as error:
        raise InvalidOption(str(error)) from error
    return Pool(
        plan,
        placement=chosen.placement,
        eviction=chosen.eviction,
        relocation=chosen.relocation,
        work=work or TOKENS,
    )


def plan_for(groups: Sequence[GroupSpec], memory_bytes: int) -> Plan:
    """The core's own plan.

    Raises:
        InvalidOption: The memory holds no pool.
    """
    try:
        return make_plan(groups, memory_bytes)
    except PlanError as error:
        if error.reason is not Reason.POOL_TOO_SMALL:
            raise InvalidOption(f"there is no pool for this --model: {error}") from error
        raise _too_little(groups, memory_bytes) from None


def _too_little(groups: Sequence[GroupSpec], memory_bytes: int) -> InvalidOption:
    least = least_memory(groups, lambda _: True)
    change = "no worker has enough" if least is None else f"give at least {mebibytes(least)}"
    return InvalidOption(
        f"--memory {memory(memory_bytes)} is too small for a pool of this --model; {change}"
    )


def check_kinds(groups: Sequence[GroupSpec], known: Sequence[GroupKind], what: str) -> None:
    """Refuse a model with groups of other kinds than ``known``.

    Raises:
        InvalidOption: There are some; the message names them and ``what`` they cannot go with.
    """
    others = sorted({group.kind.value for group in groups if group.kind not in known})
    if others:
        raise InvalidOption(
            f"{what} cannot do with groups of {', '.join(others)}; give a --model that has only "
            f"{', '.join(kind.value for kind in known)}"
        )


def check_split(groups: Sequence[GroupSpec], baseline: str) -> None:
    """Refuse a model that has states alone or attention alone.

    Raises:
        InvalidOption: One of two pools would stay empty.
    """
    states = [group.kind is GroupKind.RECURRENT_STATE for group in groups]
    if all(states) or not any(states):
        raise InvalidOption(
            f"--baseline {baseline} gives attention and states a pool each, and this --model has "
            f"no {'attention' if all(states) else 'states'}; give one that has both"
        )
