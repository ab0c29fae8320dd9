"""Random pools of two to four sizes, small enough that every block is wanted all the time."""

import random

from kvquarry_core.errors import PlanError
from kvquarry_core.plan import GroupKind, GroupSpec, Plan, make_plan

_UNIT_BYTES = 16
_FEWEST_SIZES, _MOST_SIZES = 2, 4


def random_plan(rng: random.Random) -> Plan:
    """Attention in one or two sizes and states in one or two, one token to a block."""
    while True:
        try:
            plan = make_plan(_groups(rng), _UNIT_BYTES * rng.randrange(60, 400))
        except PlanError:
            continue
        if _is_worth_a_run(plan):
            return plan


def _is_worth_a_run(plan: Plan) -> bool:
    """Several sizes, slabs enough to change hands, and blocks that share a slab."""
    return (
        _FEWEST_SIZES <= len(plan.classes) <= _MOST_SIZES
        and 8 <= plan.num_slabs <= 24
        and max(one.blocks_per_slab for one in plan.classes) > 1
    )


def _groups(rng: random.Random) -> list[GroupSpec]:
    """Attention first; states of one size may be several groups of one kind."""
    sizes = rng.sample(range(1, 5), rng.randint(1, 2))
    groups = [_group(GroupKind.FULL_ATTENTION, size) for size in sizes]
    for size in rng.sample(range(3, 13), rng.randint(1, 2)):
        groups += [_group(GroupKind.RECURRENT_STATE, size)] * rng.randint(1, 2)
    return groups


def _group(kind: GroupKind, num_units: int) -> GroupSpec:
    return GroupSpec(kind, 1, num_units * _UNIT_BYTES, 1)
