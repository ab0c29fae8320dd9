"""An engine on the real core: requests run to their end, whatever memory there is."""

from collections.abc import Sequence

import pytest

from kvquarry_core.integrity import check_integrity
from kvquarry_core.plan import GroupSpec, make_plan
from kvquarry_core.policies import PolicyNames
from kvquarry_core.pool import Pool
from kvquarry_core.reserve import DecodeReserve
from kvquarry_tools.simulation.checkpoints import checkpoints
from kvquarry_tools.simulation.policies import pool_with
from kvquarry_tools.simulation.replay.arrivals import arrivals
from kvquarry_tools.simulation.replay.engine import EngineLimits, ReplayEngine
from kvquarry_tools.simulation.replay.pools import WholePool
from kvquarry_tools.simulation.replay.sequential import replay_prompts
from kvquarry_tools.simulation.replay.tally import Tally
from kvquarry_tools.simulation.setups import alignment_tokens
from kvquarry_tools.simulation.traces import TraceRequest
from tests.tools.simulation.models import attention, chunks, states, window
from tests.tools.simulation.traces import conversation, request

HYBRID = (attention(64), states(64))
MANY_STEPS = EngineLimits(max_num_batched_tokens=700, max_num_seqs=8, sample_every_steps=1)


def run(
    pool: Pool,
    trace: Sequence[TraceRequest],
    *,
    retention: str = "boundaries",
    limits: EngineLimits = MANY_STEPS,
) -> Tally:
    """Replay, and leave nothing behind."""
    plan = pool.plan
    rule = checkpoints(retention, alignment_tokens(plan.groups))
    engine = ReplayEngine(WholePool(pool), rule, limits, arrivals(trace, plan.hash_tokens))
    num_done: list[int] = []
    tally = engine.run(num_done.append)
    assert num_done[-1] == len(trace)
    assert num_done == sorted(num_done)
    assert not pool.requests
    assert not any(pool.store.num_granted)
    check_integrity(pool)
    return tally


def pool_of(groups: Sequence[GroupSpec], num_tokens: int) -> Pool:
    """A pool of a few slabs; a state takes as much as 2,048 tokens."""
    return Pool(make_plan(groups, num_tokens))


def test_requests_that_never_meet_hit_what_prompts_one_after_another_hit() -> None:
    trace = [
        TraceRequest(60_000 * serial, one.num_prompt_tokens, 0, one.units)
        for serial, one in enumerate(conversation()[:150])
    ]
    roomy = sum(one.num_prompt_tokens for one in trace) + 150 * 4 * 2_048
    tally = run(pool_of(HYBRID, roomy), trace)
    pool = WholePool(pool_of(HYBRID, roomy))
    alone = replay_prompts(pool, checkpoints("boundaries", 64), arrivals(trace, 64), ignore)
    assert tally.hit_tokens == alone.hit_tokens > 0
    assert tally.num_preempted == 0


def ignore(num_done: int) -> None:
    pass


@pytest.mark.parametrize("retention", ["last", "boundaries", "every-512", "dense"])
@pytest.mark.parametrize(
    ("groups", "num_tokens"),
    [
        ((attention(64),), 8_000),
        (HYBRID, 24_000),
        ((*HYBRID, states(64)), 32_000),
        ((attention(64), window(200, 64)), 9_000),
        ((attention(64), chunks(320, 64), window(100, 64)), 11_000),
    ],
)
def test_under_pressure_every_request_still_ends(
    groups: Sequence[GroupSpec], num_tokens: int, retention: str
) -> None:
    trace = [
        request("abcd"[: 1 + serial % 4] + "xyz"[serial % 3], num_output_tokens=700)
        for serial in range(40)
    ]
    tally = run(pool_of(groups, num_tokens), trace, retention=retention)
    assert tally.num_finished == len(trace)
    assert tally.num_preempted > 0
    assert tally.first_shortage is not None


@pytest.mark.parametrize("windowed", [window(200, 64), chunks(320, 64)])
def test_a_window_holds_no_more_than_it_reads(windowed: GroupSpec) -> None:
    plan = make_plan([attention(64), windowed], 20_000)
    pool = Pool(plan)
    limits = EngineLimits(max_num_batched_tokens=64, sample_every_steps=1)
    trace = [request("abcd", num_output_tokens=400)]
    engine = ReplayEngine(WholePool(pool), checkpoints("last", 64), limits, arrivals(trace, 64))
    most_held = 0

    def look(_: int) -> None:
        nonlocal most_held
        for record in pool.requests.values():
            most_held = max(most_held, len(record.held[1]))

    engine.run(look)
    # Its window begun within a block, and the chunk of one block being written.
    assert most_held <= windowed.window_tokens // 64 + 2
    assert most_held >= windowed.window_tokens // 64


def test_moved_blocks_are_still_the_requests_own() -> None:
    trace = [
        request(chr(97 + serial % 26) * (1 + serial % 5), num_output_tokens=60 * (serial % 9))
        for serial in range(120)
    ]
    pool = pool_with(make_plan(HYBRID, 40_000), PolicyNames(relocation="evacuate"))
    replayed = WholePool(pool)
    rule = checkpoints("boundaries", 64)
    tally = ReplayEngine(replayed, rule, MANY_STEPS, arrivals(trace, 64)).run(ignore)
    assert tally.num_finished == len(trace)
    assert replayed.moved_bytes > 0
    check_integrity(pool)


def test_what_is_kept_free_for_decoding_saves_preemptions() -> None:
    trace = [request(chr(97 + serial) + "xy", num_output_tokens=200) for serial in range(26)]
    preempted = []
    for has_reserve in (False, True):
        pool = pool_of(HYBRID, 24_000)
        reserve = DecodeReserve(pool.plan) if has_reserve else None
        engine = ReplayEngine(
            WholePool(pool, reserve), checkpoints("last", 64), MANY_STEPS, arrivals(trace, 64)
        )
        preempted.append(engine.run(ignore).num_preempted)
        assert engine.tally.num_finished == len(trace)
    assert preempted[1] < preempted[0] / 2


def test_a_request_larger_than_the_pool_is_refused_and_the_others_go_on() -> None:
    trace = [request("a"), request("b" * 60), request("c")]
    tally = run(pool_of(HYBRID, 24_000), trace)
    assert (tally.num_finished, tally.num_refused) == (2, 1)


def test_a_request_that_outgrows_the_pool_is_refused_in_the_end() -> None:
    tally = run(pool_of((attention(64),), 4_096), [request("abcd", num_output_tokens=9_000)])
    assert (tally.num_finished, tally.num_refused) == (0, 1)
    assert tally.num_preempted >= 1


def test_a_step_computes_no_more_than_its_budget() -> None:
    limits = EngineLimits(max_num_batched_tokens=100, step_ms=1.0, token_us=0.0)
    tally = run(pool_of(HYBRID, 24_000), [request("ab"), request("cd")], limits=limits)
    # 2,048 tokens of prompts, 100 a step, and a step to notice the end.
    assert tally.num_steps == 22


def test_output_tokens_take_a_step_each() -> None:
    limits = EngineLimits(max_num_batched_tokens=1_000)
    tally = run(pool_of(HYBRID, 24_000), [request("a", num_output_tokens=50)], limits=limits)
    assert tally.num_steps == 51


def test_no_more_run_at_once_than_allowed() -> None:
    limits = EngineLimits(max_num_seqs=1, sample_every_steps=1)
    trace = [request("a", num_output_tokens=10), request("b", num_output_tokens=10)]
    tally = run(pool_of(HYBRID, 24_000), trace, limits=limits)
    assert tally.num_steps == 21


def test_an_idle_engine_sleeps_until_the_next_arrival() -> None:
    trace = [request("a"), request("b", arrival_ms=5_000_000)]
    tally = run(pool_of(HYBRID, 24_000), trace)
    assert tally.num_steps <= 6
    assert tally.samples[-1].now_s >= 5_000


def test_what_a_pool_holds_adds_up() -> None:
    trace = [request("abcd", num_output_tokens=300), request("abxy", num_output_tokens=300)]
    tally = run(pool_of(HYBRID, 24_000), trace)
    for sample in tally.samples:
        shares = (sample.content, sample.internal, sample.cached, sample.external)
        assert min(shares) >= 0
        assert sum(shares) <= 1
    assert max(sample.content for sample in tally.samples) > 0
    assert tally.samples[-1].cached > 0
