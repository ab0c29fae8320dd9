"""Outputs are those of stock vLLM, bit for bit, while memory changes hands between the kinds."""

from dataclasses import replace
from pathlib import Path

import pytest

from kvquarry_vllm.demo.job import EngineResult
from kvquarry_vllm.demo.jobs import TIGHT_POOL_BYTES, equality_job, kvquarry_env, stock_env
from tests.e2e.harness import (
    SEEDS,
    Engines,
    all_waves,
    class_changes,
    differing,
    num_moved,
    parting_prompts,
    pools_of,
    sabotaged,
)

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(500)]

TIGHT = {"kv_cache_memory_bytes": TIGHT_POOL_BYTES}
#: Holds the largest wave and hardly anything beside it.
CROWDED_POOL_BYTES = 9 << 20
#: So small that stock preempts.
SMALL_POOL_BYTES = 8 << 20
#: The first rounds of the workload: enough where it only matters whether anything differs.
FEW_WAVES = all_waves(SEEDS[0])[:14]


def test_outputs_equal_stock_while_slabs_change_size_class(
    engines: Engines, service: str, hybrid: Path, stock_hybrid: EngineResult
) -> None:
    env = kvquarry_env(service, "equality")
    with engines.served(equality_job(hybrid, env, all_waves(*SEEDS), **TIGHT)) as ours:
        changes = class_changes(service, "equality")
    assert ours.served_by_kvquarry
    assert not stock_hybrid.served_by_kvquarry
    assert differing(stock_hybrid, ours) == []
    assert min(changes[0, 1], changes[1, 0]) >= 20
    assert len(stock_hybrid.requests) >= 60


def test_what_the_pool_last_held_does_not_matter(
    engines: Engines, service: str, hybrid: Path, stock_hybrid: EngineResult
) -> None:
    """Every byte of the pool is 0xFF at first, so that reading what nobody wrote gives NaN."""
    env = kvquarry_env(service, "filled")
    job = equality_job(hybrid, env, all_waves(*SEEDS), **TIGHT)
    ours = engines.run(sabotaged(job, "fill_pool"))
    assert ours.served_by_kvquarry
    assert differing(stock_hybrid, ours) == []


def test_the_same_core_in_the_engines_process_serves_parts_of_blocks_alike(
    engines: Engines, hybrid: Path, stock_hybrid: EngineResult
) -> None:
    """A block is two kernel blocks, by our selection alone: vLLM's own would split none here."""
    env = kvquarry_env("inproc:", "inproc")
    job = equality_job(hybrid, env, FEW_WAVES, **TIGHT)
    ours = engines.run(sabotaged(job, "split_kernel_blocks"))
    assert ours.served_by_kvquarry
    assert differing(stock_hybrid, ours) == []


def test_moved_blocks_take_their_content_along(
    engines: Engines, hybrid: Path, stock_hybrid: EngineResult
) -> None:
    """At every tenth step as many blocks as can move do: running, cached and shared ones."""
    env = {**kvquarry_env("inproc:", "moves"), "KVQUARRY_RELOCATION": "evacuate"}
    job = equality_job(hybrid, env, all_waves(*SEEDS), **TIGHT)
    ours = engines.run(sabotaged(job, "force_moves"))
    assert ours.served_by_kvquarry
    assert differing(stock_hybrid, ours) == []


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("retention", "hit_tokens"), [("every-128", 384), ("last", 0), ("dense", 0)]
)
def test_whatever_is_retained_the_outputs_are_stocks(
    engines: Engines,
    service: str,
    hybrid: Path,
    stock_hybrid: EngineResult,
    retention: str,
    hit_tokens: int,
) -> None:
    """And a prompt that parts from another after 500 tokens finds what the rule keeps before.

    Dense keeps the states there are, and one step computed all of the other prompt.
    """
    env = {**kvquarry_env(service, retention), "KVQUARRY_RETENTION": retention}
    waves = (*FEW_WAVES, *parting_prompts(900, 500))
    with engines.served(equality_job(hybrid, env, waves, **TIGHT)) as ours:
        (pool,) = pools_of(service, retention)
    *compared, _, parted = ours.requests
    assert ours.served_by_kvquarry
    assert differing(stock_hybrid, replace(ours, requests=tuple(compared))) == []
    assert pool.policies.retention == retention
    assert parted.num_cached_tokens == hit_tokens


@pytest.mark.nightly
def test_a_small_pool_preempts_no_more_often_than_stock(engines: Engines, hybrid: Path) -> None:
    """Both in 8 MiB: the reserve leaves running requests room to decode into."""
    waves, memory = all_waves(*SEEDS), {"kv_cache_memory_bytes": SMALL_POOL_BYTES}
    stock = engines.run(equality_job(hybrid, stock_env(), waves, **memory))
    ours = engines.run(equality_job(hybrid, kvquarry_env("inproc:", "small"), waves, **memory))
    assert ours.served_by_kvquarry
    assert not stock.served_by_kvquarry
    assert stock.num_preemptions > 0
    assert ours.num_preemptions <= stock.num_preemptions


@pytest.mark.nightly
def test_blocks_move_by_themselves_where_a_large_one_would_not_fit(
    engines: Engines, service: str, hybrid: Path, stock_hybrid: EngineResult
) -> None:
    """In half the memory slabs are kept by few blocks each; nothing but need moves them."""
    env = {**kvquarry_env(service, "crowded"), "KVQUARRY_RELOCATION": "evacuate"}
    job = equality_job(hybrid, env, FEW_WAVES, kv_cache_memory_bytes=CROWDED_POOL_BYTES)
    with engines.served(job) as ours:
        moved = num_moved(service, "crowded")
    assert ours.served_by_kvquarry
    assert differing(stock_hybrid, ours) == []
    assert sum(moved) >= 10


def test_a_model_of_one_size_class_serves_the_same(
    engines: Engines, service: str, full_attention: Path
) -> None:
    waves = all_waves(*SEEDS)
    stock = engines.run(equality_job(full_attention, stock_env(), waves))
    env = kvquarry_env(service, "full-attention")
    ours = engines.run(equality_job(full_attention, env, waves, **TIGHT))
    assert ours.served_by_kvquarry
    assert differing(stock, ours) == []


@pytest.mark.parametrize(
    "fault", ["shift_ids", "skip_zeroing", "move_without_copying", "turn_kernel_blocks"]
)
def test_a_planted_fault_shows_in_the_outputs(
    engines: Engines, service: str, hybrid: Path, stock_hybrid: EngineResult, fault: str
) -> None:
    """The negative controls: were these green, the tests above would prove nothing."""
    env = kvquarry_env(service, fault)
    if fault == "move_without_copying":
        env = {**kvquarry_env("inproc:", fault), "KVQUARRY_RELOCATION": "evacuate"}
    job = equality_job(hybrid, env, FEW_WAVES, **TIGHT)
    ours = engines.run(sabotaged(job, fault))
    assert ours.served_by_kvquarry
    assert differing(stock_hybrid, ours) != []
