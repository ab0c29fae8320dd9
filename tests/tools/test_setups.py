"""Pools are set up as their names promise."""

import pytest

from kvquarry_core.plan import make_plan
from kvquarry_core.policies import PolicyNames
from kvquarry_tools.models import Serving, find_model, known_models
from kvquarry_tools.simulation.replay.engine import EngineLimits
from kvquarry_tools.simulation.runs import simulate
from kvquarry_tools.simulation.settings import Baseline, Replay, SimulationSettings
from kvquarry_tools.simulation.setups import make_pool
from tests.tools.simulation.traces import conversation, request

GIB = 1 << 30


def settings(
    baseline: Baseline | None, *, model: str = "Qwen3.6-35B-A3B", **more: object
) -> SimulationSettings:
    served = find_model(model).served(Serving(64))
    return SimulationSettings(served, 20 * GIB, baseline=baseline, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize("model", known_models())
def test_a_uniform_pool_has_blocks_of_one_size_that_any_group_may_take(model: str) -> None:
    groups = find_model(model).served(Serving(16)).stock.groups
    plan = make_plan(groups, 60 * GIB)
    assert len({size_class.stride_bytes for size_class in plan.classes}) == 1
    # With several classes a slab is one block, so whoever takes it takes no other's neighbour.
    assert len(plan.classes) == 1 or {c.blocks_per_slab for c in plan.classes} == {1}


def test_a_uniform_pool_is_evicted_from_in_the_order_that_stock_goes_by() -> None:
    trace = conversation()[:40]
    usual = simulate(settings(Baseline.UNIFORM), trace)
    other = simulate(settings(Baseline.UNIFORM, policies=PolicyNames(eviction="slab-aware")), trace)
    assert usual == other


@pytest.mark.parametrize("retention", ["last", "boundaries", "every-512", "dense"])
@pytest.mark.parametrize("replay", Replay)
def test_infinite_memory_never_evicts(retention: str, replay: Replay) -> None:
    trace = [
        request(chr(97 + serial % 7) + "bcd"[: serial % 4], num_output_tokens=300)
        for serial in range(30)
    ]
    figures = simulate(
        settings(Baseline.INFINITE, retention=retention, replay=replay),
        trace,
        limits=EngineLimits(max_num_batched_tokens=1_000),
    )
    assert figures.evictions == {"attention": 0, "states": 0}
    assert figures.num_preempted == 0
    assert figures.num_requests == len(trace)


def test_a_static_split_gives_attention_seventy_percent() -> None:
    pool = make_pool(settings(Baseline.STATIC), [])
    of_states, of_tokens = (part.plan.pool_bytes for part in pool.parts)
    assert of_tokens / (20 * GIB) == pytest.approx(0.7, abs=0.005)
    assert of_states / (20 * GIB) == pytest.approx(0.3, abs=0.005)
