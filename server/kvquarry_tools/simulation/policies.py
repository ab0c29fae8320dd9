"""Plans and pools for what a user asks for, with errors that say what to change."""

from collections.abc import Sequence

from kvquarry_core.errors import PlanError, UsageError
from kvquarry_core.plan import GroupKind, GroupSpec, Plan, make_plan
from kvquarry_core.policies import PolicyNames, installed_policies
from kvquarry_core.pool import Pool
from kvquarry_tools.errors import InvalidOption

_KNOWN_KINDS = (GroupKind.FULL_ATTENTION, GroupKind.RECURRENT_STATE)


def pool_with(plan: Plan, names: PolicyNames) -> Pool:
    """A pool that goes by policies of the core or of an installed package.

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
    )


def plan_for(groups: Sequence[GroupSpec], memory_bytes: int) -> Plan:
    """The core's own plan.

    Raises:
        InvalidOption: The memory holds no pool.
    """
    try:
        return make_plan(groups, memory_bytes)
    except PlanError as error:
        raise InvalidOption(f"--memory is too small: {error}") from error


def check_kinds(groups: Sequence[GroupSpec]) -> None:
    """Refuse groups whose blocks a simulation does not know how to use.

    Raises:
        InvalidOption: There are some.
    """
    others = sorted({group.kind.value for group in groups if group.kind not in _KNOWN_KINDS})
    if others:
        raise InvalidOption(
            f"models with groups of {', '.join(others)} cannot be simulated yet; take one of full "
            f"attention and recurrent states"
        )
