"""One check for each kind of policy."""

import random
from collections.abc import Callable
from typing import TypeVar

from kvquarry_core.eviction import Eviction, Lru
from kvquarry_core.placement import Affinity, Placement
from kvquarry_core.pool import Pool
from kvquarry_core.relocation import EvacuateCheapest, Relocation
from kvquarry_core.retention import Retention
from kvquarry_core.work import TOKENS, Work
from kvquarry_tools.conformance.errors import NotConforming
from kvquarry_tools.conformance.life import RandomLife
from kvquarry_tools.conformance.plans import random_plan
from kvquarry_tools.conformance.prompts import check_prompt, random_prompt
from kvquarry_tools.conformance.watched import (
    WatchedEviction,
    WatchedPlacement,
    WatchedRelocation,
)

#: Pools that a policy goes through, and operations on each.
_NUM_POOLS = 8
_NUM_OPERATIONS = 250
#: Prompts that a retention is asked about.
_NUM_PROMPTS = 300
#: So that attention to earlier tokens matters in prompts of ten.
_WORK = Work(token_flops=6e9, token_pair_flops=1e9)

_Policy = TypeVar("_Policy")


def check_placement(make: Callable[[], Placement]) -> None:
    """Put a placement through random pools, with and without relocation.

    Raises:
        NotConforming: It broke a rule.
    """
    for seed in range(_NUM_POOLS):
        rng = random.Random(seed)
        plan = random_plan(rng)
        policy = WatchedPlacement(_made(make), len(plan.classes))
        moving = EvacuateCheapest(most_bytes=1 << 20) if seed % 2 else None
        _run(Pool(plan, placement=policy, relocation=moving), rng, seed)
        assert policy.num_calls, f"a pool of seed {seed} needed no placement"


def check_eviction(make: Callable[[], Eviction]) -> None:
    """Put an eviction through random pools, with and without relocation and a model's work.

    Raises:
        NotConforming: It broke a rule.
    """
    for seed in range(_NUM_POOLS):
        rng = random.Random(seed)
        policy = WatchedEviction(_made(make))
        moving = EvacuateCheapest(most_bytes=1 << 20) if seed % 2 else None
        plan, work = random_plan(rng), TOKENS if seed % 4 < 2 else _WORK
        _run(Pool(plan, eviction=policy, relocation=moving, work=work), rng, seed)
        assert policy.num_calls, f"a pool of seed {seed} evicted nothing"


def check_relocation(make: Callable[[], Relocation | None]) -> None:
    """Put a relocation through random pools.

    Raises:
        NotConforming: It broke a rule.
    """
    num_calls, moves_nothing = 0, False
    for seed in range(_NUM_POOLS):
        rng = random.Random(seed)
        plan = random_plan(rng)
        policy = WatchedRelocation(_made(make))
        pool = Pool(plan, placement=Affinity(), eviction=Lru(), relocation=policy)
        _run(pool, rng, seed)
        num_calls += policy.num_calls
        moves_nothing |= policy.policy is None
    assert num_calls or moves_nothing, "no pool had anything to move"


def check_retention(make: Callable[[], Retention | None]) -> None:
    """Ask a retention about random prompts, each cut in pieces; None leaves the choice to others.

    Raises:
        NotConforming: It broke a rule.
    """
    retention = _made(make)
    if retention is None:
        return
    for seed in range(_NUM_PROMPTS):
        rng = random.Random(seed)
        try:
            check_prompt(retention, random_prompt(rng), rng)
        except Exception as error:  # a policy may do anything
            raise NotConforming(f"prompt {seed}: {_said(error)}") from error


def _made(make: Callable[[], _Policy]) -> _Policy:
    try:
        return make()
    except TypeError as error:
        name = getattr(make, "__name__", repr(make))
        raise NotConforming(
            f"{name} cannot be made without a number or another argument ({error}); pass it one, "
            f"as in `lambda: {name}(2)`"
        ) from error


def _run(pool: Pool, rng: random.Random, seed: int) -> None:
    life, number = RandomLife(pool, rng), 0
    try:
        for number in range(_NUM_OPERATIONS):  # noqa: B007 - named when it ends early
            life.step()
        life.finish()
    except Exception as error:  # a policy may do anything
        raise NotConforming(f"pool {seed}, operation {number}: {_said(error)}") from error


def _said(error: Exception) -> str:
    return str(error) if isinstance(error, NotConforming) else repr(error)
