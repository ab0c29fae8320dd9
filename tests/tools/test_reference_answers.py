"""The prefix cache finds in the conversation trace what is known to be in it.

The answers were computed without this project's code. The whole tables are for the night: half of
them would already double the suite's time.
"""

import math

import pytest

from kvquarry_core.ids import KindId
from kvquarry_core.plan import GroupSpec, make_plan
from kvquarry_core.pool import Pool
from kvquarry_tools.models import Serving, find_model
from kvquarry_tools.simulation.checkpoints import checkpoints
from kvquarry_tools.simulation.replay.arrivals import arrivals
from kvquarry_tools.simulation.replay.pools import WholePool
from kvquarry_tools.simulation.replay.sequential import replay_prompts
from kvquarry_tools.simulation.replay.tally import Tally
from kvquarry_tools.simulation.results import Figures
from kvquarry_tools.simulation.runs import simulate
from kvquarry_tools.simulation.settings import Baseline, Replay, SimulationSettings
from kvquarry_tools.simulation.traces import UNIT_TOKENS, TraceRequest
from tests.tools.simulation.models import attention
from tests.tools.simulation.traces import conversation

GRANULARITIES = {512: 0.3734, 1024: 0.3396, 2048: 0.3210, 4096: 0.2912, 8192: 0.2397}
#: Token hit rate and checkpoints kept.
RETENTIONS = {
    "last": (0.3497, 9_633),
    "boundaries": (0.3586, 10_237),
    "every-4096": (0.3686, 28_692),
    "dense": (0.3734, 170_899),
}
#: Block hit rate by the blocks that memory holds.
LRU = {
    1_000: 0.0445,
    3_000: 0.0653,
    10_000: 0.2116,
    30_000: 0.3257,
    50_000: 0.3546,
    100_000: 0.3637,
    300_000: 0.3664,
}


def found(model: str, block_tokens: int, retention: str = "boundaries") -> Figures:
    """What `kvquarry simulate --no-decode --baseline infinite` finds."""
    settings = SimulationSettings(
        served=find_model(model).served(Serving(block_tokens)),
        memory_bytes=1 << 30,
        replay=Replay.PROMPTS,
        retention=retention,
        baseline=Baseline.INFINITE,
    )
    return simulate(settings, conversation())


def by_granularity(block_tokens: int) -> None:
    figures = found("Llama-3.1-8B", block_tokens)
    assert f"{figures.token_hit_rate:.4f}" == f"{GRANULARITIES[block_tokens]:.4f}"
    assert figures.evictions == {"attention": 0}


def by_retention(name: str) -> None:
    hit_rate, num_kept = RETENTIONS[name]
    figures = found("Qwen3.6-35B-A3B", 512, name)
    assert f"{figures.token_hit_rate:.4f}" == f"{hit_rate:.4f}"
    assert figures.checkpoints == num_kept
    assert figures.evictions == {"attention": 0, "states": 0}


@pytest.mark.parametrize("block_tokens", [1024, 4096])
def test_hit_rates_by_granularity(block_tokens: int) -> None:
    by_granularity(block_tokens)


def test_hit_rate_and_checkpoints_by_retention() -> None:
    by_retention("boundaries")


@pytest.mark.nightly
@pytest.mark.timeout(600)
@pytest.mark.parametrize("block_tokens", GRANULARITIES)
def test_hit_rates_by_every_granularity(block_tokens: int) -> None:
    by_granularity(block_tokens)


@pytest.mark.nightly
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", RETENTIONS)
def test_hit_rates_and_checkpoints_by_every_retention(name: str) -> None:
    by_retention(name)


@pytest.mark.parametrize("retention", ["last", "boundaries"])
def test_finer_blocks_find_no_less(retention: str) -> None:
    """A checkpoint must not lie where the trace cannot name it for anybody else."""
    hit_tokens = [
        simulate(
            SimulationSettings(
                find_model("Qwen3.6-35B-A3B").served(Serving(block_tokens)),
                1 << 30,
                replay=Replay.PROMPTS,
                retention=retention,
                baseline=Baseline.INFINITE,
            ),
            conversation()[:400],
        ).hit_tokens
        for block_tokens in (512, 256, 64)
    ]
    assert 0 < hit_tokens[0] <= hit_tokens[1] <= hit_tokens[2]


def whole_units(request: TraceRequest) -> TraceRequest:
    """The request with its last unit filled up, and a token to compute beyond it.

    The answers for LRU count that unit as a block like the others.
    """
    num_tokens = len(request.units) * UNIT_TOKENS
    return TraceRequest(request.arrival_ms, num_tokens + 1, 0, (*request.units, 0))


def lru_tally(trace: list[TraceRequest], num_blocks: int) -> Tally:
    """Replay on a pool with room for so many blocks, the null block and one for the last token."""
    spec: GroupSpec = attention(UNIT_TOKENS)
    plan = make_plan([spec], (num_blocks + 2) * spec.page_bytes)
    pool = Pool(plan)
    tally = replay_prompts(
        WholePool(pool), checkpoints("last", UNIT_TOKENS), arrivals(trace, UNIT_TOKENS), ignore
    )
    assert len(pool.store.index.commitments(KindId(0))) <= num_blocks
    return tally


def ignore(num_done: int) -> None:
    pass


def naive_hits(trace: list[TraceRequest], num_blocks: int) -> int:
    """Block hits of LRU over a plain list, the deepest block of a request the oldest."""
    cached: dict[int, None] = {}
    hits = 0
    for request in trace:
        units = request.units[:-1]
        missing = (depth for depth, unit in enumerate(units) if unit not in cached)
        hits += next(missing, len(units))
        for unit in reversed(units):
            cached.pop(unit, None)
            cached[unit] = None
        for unit in list(cached)[: max(len(cached) - num_blocks, 0)]:
            del cached[unit]
    return hits


@pytest.mark.parametrize("num_blocks", [300, 1_000, 3_000])
def test_lru_is_what_a_plain_list_does(num_blocks: int) -> None:
    trace = [whole_units(request) for request in conversation()[:800]]
    tally = lru_tally(trace, num_blocks)
    assert tally.num_refused == 0
    assert tally.hit_tokens == UNIT_TOKENS * naive_hits(trace, num_blocks)


@pytest.mark.nightly
@pytest.mark.timeout(600)
@pytest.mark.parametrize("num_blocks", LRU)
def test_lru_hit_rates_by_memory(num_blocks: int) -> None:
    trace = [whole_units(request) for request in conversation()]
    num_wanted = sum(len(request.units) - 1 for request in trace)
    hits = lru_tally(trace, num_blocks).hit_tokens / UNIT_TOKENS
    assert math.isclose(hits / num_wanted, LRU[num_blocks], abs_tol=5e-5)
