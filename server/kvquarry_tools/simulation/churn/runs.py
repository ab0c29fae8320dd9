"""A run of churn from its settings to its figures."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from kvquarry_core.ids import Handle
from kvquarry_core.policies import PolicyNames
from kvquarry_core.pool import Pool
from kvquarry_tools.errors import InvalidOption
from kvquarry_tools.models import ServedModel
from kvquarry_tools.planning.sizes import memory
from kvquarry_tools.simulation.churn.baselines import (
    Oracle,
    RandomSlab,
    StaticSplit,
    taken_by_blocks,
    taken_by_content,
)
from kvquarry_tools.simulation.churn.engine import (
    MOST_REFUSED_IN_A_ROW,
    ChurnEngine,
    NothingFits,
)
from kvquarry_tools.simulation.churn.pools import ChurnPool, CorePool, need_of
from kvquarry_tools.simulation.churn.requests import Traffic
from kvquarry_tools.simulation.least_memory import least_memory
from kvquarry_tools.simulation.policies import (
    PLAIN_KINDS,
    check_kinds,
    check_split,
    plan_for,
    pool_with,
)
from kvquarry_tools.simulation.settings import CHURN_BASELINES

#: The real core with the policies that the settings name.
CORE = "kvquarry"
_TOKEN_SHARE = {"static": 0.7, "static-even": 0.5}
_QUARTERS = 4
#: Each quarter has one.
LEAST_STEPS = _QUARTERS


@dataclass(frozen=True, slots=True)
class ChurnSettings:
    """What is run.

    Attributes:
        served: The model: full attention and states.
        memory_bytes: The pool.
        pool: :data:`CORE` or one of :data:`CHURN_BASELINES`.
        policies: What :data:`CORE` goes by.
        num_steps: Steps of the engine.
        seed: Which requests.
    """

    served: ServedModel
    memory_bytes: int
    pool: str
    policies: PolicyNames
    num_steps: int
    seed: int

    @property
    def label(self) -> str:
        """The pool and its policies in a word."""
        if self.pool != CORE:
            return self.pool
        relocation = self.policies.relocation
        return self.policies.placement + ("" if relocation == "off" else f"+{relocation}")


@dataclass(frozen=True, slots=True)
class ChurnFigures:
    """What came of it.

    Attributes:
        utilisation: Bytes really needed as a share of the pool, by quarter of the run.
        first_shortage: The same when something did not fit for the first time; None for never.
        num_running: Running requests on average, in the last quarter.
        num_finished: Requests that ran to their end.
        num_preempted: Preemptions.
        num_refused: Requests that not even an empty pool holds.
        moved_bytes_per_finished: What relocation copied, by finished request.
    """

    utilisation: tuple[float, ...]
    first_shortage: float | None
    num_running: float
    num_finished: int
    num_preempted: int
    num_refused: int
    moved_bytes_per_finished: float


def run_churn(
    settings: ChurnSettings, on_step: Callable[[int], None] = lambda _: None
) -> ChurnFigures:
    """Run all steps; ``on_step`` hears of each one, for a progress bar.

    Raises:
        InvalidOption: There are fewer than :data:`LEAST_STEPS` steps, the pool cannot be made, or
            it holds none of the requests.
    """
    check_steps(settings.num_steps)
    pool, traffic = make_pool(settings), Traffic()
    engine = ChurnEngine(pool, traffic.requests(settings.seed))
    utilisation = []
    num_running = 0.0
    try:
        for steps in _quarters(settings.num_steps):
            needed_bytes = running = 0
            for step in steps:
                occupancy = engine.step()
                needed_bytes += occupancy.needed_bytes
                running += occupancy.num_running
                on_step(step)
            utilisation.append(needed_bytes / len(steps) / settings.memory_bytes)
            num_running = running / len(steps)
    except NothingFits:
        raise InvalidOption(_what_would_fit(settings, traffic)) from None
    totals = engine.totals
    shortage = totals.first_shortage_bytes
    return ChurnFigures(
        utilisation=tuple(utilisation),
        first_shortage=None if shortage is None else shortage / settings.memory_bytes,
        num_running=num_running,
        num_finished=totals.finished,
        num_preempted=totals.preempted,
        num_refused=totals.refused,
        moved_bytes_per_finished=pool.moved_bytes / max(totals.finished, 1),
    )


def check_steps(num_steps: int) -> None:
    """Refuse a run without a step in each quarter.

    Raises:
        InvalidOption: There are too few.
    """
    if num_steps < LEAST_STEPS:
        raise InvalidOption(
            f"--steps {num_steps} is too small; give a number from {LEAST_STEPS} on, since each "
            "quarter of the run is a figure"
        )


def check_pool(name: str) -> None:
    """Refuse a name that stands for no pool.

    Raises:
        InvalidOption: There is none of that name.
    """
    known = (CORE, *CHURN_BASELINES)
    if name not in known:
        raise InvalidOption(f"no pool {name!r} to churn; there are {', '.join(known)}")


def make_pool(settings: ChurnSettings) -> ChurnPool:
    """The pool that is churned.

    Raises:
        InvalidOption: There is no such pool or policy, the model has groups that do not churn, or
            the memory is too small for it.
    """
    check_pool(settings.pool)
    check_kinds(settings.served.groups, PLAIN_KINDS, "--churn")
    groups, memory_bytes = settings.served.groups, settings.memory_bytes
    match settings.pool:
        case "uniform":
            stock = plan_for(settings.served.stock.groups, memory_bytes)
            return CorePool(Pool(stock), need_of(groups))
        case "static" | "static-even":
            check_split(groups, settings.pool)
            return StaticSplit(groups, memory_bytes, _TOKEN_SHARE[settings.pool])
        case "oracle":
            return Oracle(groups, taken_by_content(groups), memory_bytes)
    plan = plan_for(groups, memory_bytes)
    if settings.pool == "oracle-blocks":
        return Oracle(groups, taken_by_blocks(plan), plan.pool_bytes)
    if settings.pool == "random":
        return CorePool(Pool(plan, placement=RandomSlab(settings.seed)), need_of(groups))
    return CorePool(pool_with(plan, settings.policies), need_of(groups))


def _what_would_fit(settings: ChurnSettings, traffic: Traffic) -> str:
    num_tokens = traffic.prompts.p95_tokens

    def holds(memory_bytes: int) -> bool:
        pool = make_pool(replace(settings, memory_bytes=memory_bytes))
        return pool.admit(Handle(0), num_tokens)

    enough_bytes = least_memory(holds, settings.memory_bytes)
    needed = "no memory is enough" if enough_bytes is None else f"give {memory(enough_bytes)}"
    return (
        f"--memory is too small: {MOST_REFUSED_IN_A_ROW:,} requests in a row do not fit; for "
        f"prompts of {num_tokens:,} tokens, which one of twenty exceeds, {needed} or more"
    )


def _quarters(num_steps: int) -> Iterator[Sequence[int]]:
    ends = [num_steps * quarter // _QUARTERS for quarter in range(_QUARTERS + 1)]
    return (range(first, last) for first, last in pairwise(ends))
