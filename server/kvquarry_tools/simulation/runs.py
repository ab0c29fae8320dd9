"""A simulation from its settings to its figures."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from kvquarry_core.ids import ClassId, KindId
from kvquarry_core.plan import GroupKind, Plan
from kvquarry_tools.planning.report import KIND_NAMES
from kvquarry_tools.simulation.belady import Belady, Sizes
from kvquarry_tools.simulation.checkpoints import checkpoints
from kvquarry_tools.simulation.policies import PLAIN_KINDS, check_kinds
from kvquarry_tools.simulation.replay.arrivals import arrivals
from kvquarry_tools.simulation.replay.engine import EngineLimits, ReplayEngine
from kvquarry_tools.simulation.replay.pools import ReplayPool
from kvquarry_tools.simulation.replay.sequential import replay_prompts
from kvquarry_tools.simulation.replay.tally import Tally
from kvquarry_tools.simulation.results import Figures
from kvquarry_tools.simulation.settings import Baseline, Replay, SimulationSettings
from kvquarry_tools.simulation.setups import alignment_tokens, make_pool
from kvquarry_tools.simulation.traces import UNIT_TOKENS, TraceRequest
from kvquarry_tools.simulation.whole_trace_refused import whole_trace_refused

#: Hears how many requests are done.
OnDone = Callable[[int], None]


def simulate(
    settings: SimulationSettings,
    trace: Sequence[TraceRequest],
    *,
    limits: EngineLimits = EngineLimits(),  # noqa: B008 - frozen
    on_done: OnDone = lambda _: None,
) -> Figures:
    """Replay a trace.

    Raises:
        InvalidOption: The settings contradict each other or the model, or the memory holds none of
            the requests.
    """
    if settings.baseline is Baseline.BELADY:
        return _foresee(settings, trace, on_done)
    pool = make_pool(settings, trace)
    rule = checkpoints(settings.retention, alignment_tokens(pool.plan.groups))

    def run(pool: ReplayPool, requests: Sequence[TraceRequest], on_done: OnDone) -> Tally:
        waiting = arrivals(requests, pool.plan.hash_tokens)
        if settings.replay is Replay.PROMPTS:
            return replay_prompts(pool, rule, waiting, on_done)
        return ReplayEngine(pool, rule, limits, waiting).run(on_done)

    def holds(request: TraceRequest, memory_bytes: int) -> bool:
        larger = make_pool(replace(settings, memory_bytes=memory_bytes), [request])
        return bool(run(larger, [request], lambda _: None).num_finished)

    tally = run(pool, trace, on_done)
    if not tally.num_finished:
        raise whole_trace_refused(trace, holds, settings.memory_bytes)
    figures = replace(
        _figures(pool, tally),
        interval_tokens=rule.interval_tokens,
        work_hit_rate=_work_hit_rate(settings, tally),
    )
    # Of memory without end every share is nothing.
    is_infinite = settings.baseline is Baseline.INFINITE
    return replace(figures, samples=(), first_shortage=None) if is_infinite else figures


def _foresee(
    settings: SimulationSettings, trace: Sequence[TraceRequest], on_done: OnDone
) -> Figures:
    served = settings.served
    check_kinds(served.groups, PLAIN_KINDS, "--baseline belady")
    unit_tokens = UNIT_TOKENS * -(-served.serving.block_tokens // UNIT_TOKENS)
    sizes = Sizes(served.bytes_per_token, served.checkpoint_bytes, unit_tokens)
    foreseen = Belady(trace, sizes, settings.memory_bytes).run(on_done)
    return Figures(
        num_requests=len(trace),
        num_refused=0,
        prompt_tokens=foreseen.prompt_tokens,
        hit_tokens=foreseen.hit_tokens,
        work_hit_rate=_work_hit_rate(settings, Tally(lengths=list(foreseen.lengths))),
    )


def _work_hit_rate(settings: SimulationSettings, tally: Tally) -> float | None:
    """Of what the model computes for all prompts; None: its configuration does not say."""
    work = settings.served.model.work
    return None if work is None else tally.work_hit_rate(work)


def _figures(pool: ReplayPool, tally: Tally) -> Figures:
    evictions: Counter[str] = Counter()
    for part in pool.parts:
        for index, num_blocks in enumerate(part.store.num_evictions):
            evictions[_holds(part.plan, ClassId(index))] += num_blocks
    return Figures(
        num_requests=tally.num_requests,
        num_refused=tally.num_refused,
        prompt_tokens=tally.prompt_tokens,
        hit_tokens=tally.hit_tokens,
        recomputed_tokens=tally.recomputed_tokens,
        moved_bytes=pool.moved_bytes,
        num_preempted=tally.num_preempted,
        num_steps=tally.num_steps,
        evictions=dict(evictions),
        checkpoints=max(_num_checkpoints(pool), default=0),
        first_shortage=tally.first_shortage,
        samples=tuple(tally.samples),
    )


def _holds(plan: Plan, size_class: ClassId) -> str:
    """What the blocks of a class hold."""
    holds = {
        KIND_NAMES.get(group.kind, group.kind.value)
        for group, mine in zip(plan.groups, plan.class_of_group, strict=True)
        if mine == size_class
    }
    return " and ".join(sorted(holds))


def _num_checkpoints(pool: ReplayPool) -> Iterator[int]:
    for part in pool.parts:
        for index in range(len(part.plan.kinds)):
            if part.plan.spec_of_kind(KindId(index)).kind is GroupKind.RECURRENT_STATE:
                yield len(part.store.index.commitments(KindId(index)))
