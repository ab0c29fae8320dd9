"""vLLM's own planning, with our hooks in it: the pool it makes, opens, counts and hands on."""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any

import pytest
from transformers import PretrainedConfig
from vllm.v1.core import kv_cache_utils
from vllm.v1.kv_cache_interface import KVCacheConfig, KVCacheSpec

from kvquarry_client.engine import OpenedPool
from kvquarry_client.errors import PlanMismatch
from kvquarry_client.target import parse_target
from kvquarry_core.plan import make_plan
from kvquarry_core.policies import PolicyNames
from kvquarry_core.work import Work
from kvquarry_vllm import opening
from kvquarry_vllm.config import MixedKVCacheConfig
from kvquarry_vllm.gates import replacements, v0_32
from kvquarry_vllm.log import logger
from kvquarry_vllm.opening import PoolTooSmall
from kvquarry_vllm.settings import Settings
from tests.vllm.configurations import (
    attention,
    attention_layers,
    hybrid_layers,
    state,
    vllm_config,
)

SETTINGS = Settings(parse_target("unix:/run/kvquarry.sock"), "left", 7.0)
MIB = 1 << 20
Calls = list[dict[str, Any]]


@pytest.fixture(autouse=True)
def _hooked(monkeypatch: pytest.MonkeyPatch) -> None:
    """The planning hooks of 0.32, for one test."""
    for hook in v0_32.hooks(SETTINGS):
        if hook.module == "vllm.v1.core.kv_cache_utils":
            replacement = hook.replace(getattr(kv_cache_utils, hook.name))
            monkeypatch.setattr(kv_cache_utils, hook.name, replacement)


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> Calls:
    """A service that opens every pool, and what it was asked."""
    calls: Calls = []

    def open_pool(target: str, **asked: Any) -> OpenedPool:
        calls.append({"target": target, **asked})
        plan = make_plan(asked["groups"], asked["pool_bytes"])
        return OpenedPool(f"pool-{len(calls)}", 3, plan, PolicyNames(retention="every-512"))

    monkeypatch.setattr(opening, "open_pool", open_pool)
    return calls


def plan_for(
    layers: dict[str, KVCacheSpec], memory: list[int], **changes: Any
) -> list[KVCacheConfig]:
    """What the engine core gets from `get_kv_cache_configs`."""
    config = vllm_config(model_config__original_max_model_len=1024, **changes)
    config.num_prefill_lookahead_tokens = 0
    config.max_in_flight_tokens = 4096
    hooked = replacements.opening_pool(SETTINGS)(kv_cache_utils.get_kv_cache_configs)
    configs: list[KVCacheConfig] = hooked(config, [dict(layers) for _ in memory], memory)
    return configs


@pytest.mark.parametrize("layers", [hybrid_layers(), attention_layers()], ids=["hybrid", "plain"])
def test_a_model_in_scope_gets_an_open_pool(layers: dict[str, KVCacheSpec], opened: Calls) -> None:
    (config,) = plan_for(layers, [12 * MIB])
    assert isinstance(config, MixedKVCacheConfig)
    assert (config.pool_id, config.incarnation) == ("pool-1", 3)
    assert (config.target, config.engine) == ("unix:/run/kvquarry.sock", "left")
    assert config.retention == "every-512"
    (asked,) = opened
    assert asked["groups"] == config.plan.groups
    assert asked["pool_bytes"] == 12 * MIB
    assert asked["num_workers"] == 1
    assert asked["connect_timeout_s"] == 7.0
    assert asked["work"] is None


def chosen(monkeypatch: pytest.MonkeyPatch, retention: str) -> None:
    """A service whose pools go by a retention."""

    def open_pool(target: str, **asked: Any) -> OpenedPool:
        plan = make_plan(asked["groups"], asked["pool_bytes"])
        return OpenedPool("pool", 1, plan, PolicyNames("best-fit", "lru", "off", retention))

    monkeypatch.setattr(opening, "open_pool", open_pool)


BOUNDARIES_AND = "boundaries, and multiples of"
OTHERS = "placement best-fit, eviction lru, relocation off, retention"


@pytest.mark.parametrize(
    ("retention", "interval", "said", "level"),
    [
        ("last", 0, "last", logging.INFO),
        ("every-64", 0, "every-64", logging.INFO),
        (
            "every-100",
            0,
            "every-100 (every 1600 tokens: hits end at multiples of 64)",
            logging.WARNING,
        ),
        ("engine", 0, "engine (prefix_cache_retention_interval 0: boundaries)", logging.INFO),
        ("engine", None, "engine (prefix_cache_retention_interval None: dense)", logging.INFO),
        (
            "engine",
            128,
            f"engine (prefix_cache_retention_interval 128: {BOUNDARIES_AND} 128 where chunks end)",
            logging.INFO,
        ),
    ],
)
def test_an_engine_says_which_policies_its_pool_goes_by_and_what_its_retention_comes_to(
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    retention: str,
    interval: int | None,
    said: str,
    level: int,
) -> None:
    chosen(monkeypatch, retention)
    with caplog.at_level(logging.INFO, logger=logger.name):
        plan_for(
            hybrid_layers(), [12 * MIB], cache_config__prefix_cache_retention_interval=interval
        )
    [record] = [one for one in caplog.records if "kvquarry pool" in one.getMessage()]
    assert record.getMessage().endswith(f"; {OTHERS} {said}")
    assert record.levelno == level


def test_a_model_whose_checkpoints_cost_nothing_is_told_of_no_interval(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    chosen(monkeypatch, "every-100")
    with caplog.at_level(logging.INFO, logger=logger.name):
        plan_for(attention_layers(), [12 * MIB])
    [record] = [one for one in caplog.records if "kvquarry pool" in one.getMessage()]
    assert record.getMessage().endswith("retention every-100")
    assert record.levelno == logging.INFO


def test_the_pool_is_told_what_the_model_computes(opened: Calls) -> None:
    config = PretrainedConfig(
        architectures=["LlamaForCausalLM"],
        hidden_size=64,
        intermediate_size=100,
        num_attention_heads=4,
        num_hidden_layers=1,
    )
    plan_for(hybrid_layers(), [12 * MIB], model_config__hf_config=config)
    (asked,) = opened
    assert asked["work"] == Work(2.0 * (4 * 64 * 64 + 3 * 64 * 100), 4 * 64.0)


def test_all_workers_get_one_plan_from_the_poorest_ones_memory(opened: Calls) -> None:
    """vLLM would let the others plan again with fewer blocks, and cut slabs of another size."""
    poorest_bytes = 9_700_000
    configs = plan_for(hybrid_layers(), [13 * MIB, poorest_bytes, 14 * MIB])
    plans = [config.plan for config in configs if isinstance(config, MixedKVCacheConfig)]
    assert len(plans) == 3
    assert plans[0] == plans[1] == plans[2] == make_plan(plans[0].groups, poorest_bytes)
    assert [(call["num_workers"], call["pool_bytes"]) for call in opened] == [(3, poorest_bytes)]
    assert {config.pool_id for config in configs} == {"pool-1"}  # type: ignore[attr-defined]


def test_the_scheduler_gets_the_same_pool(opened: Calls) -> None:
    configs = plan_for(hybrid_layers(), [12 * MIB])
    scheduler_config = kv_cache_utils.generate_scheduler_kv_cache_config(configs)
    assert scheduler_config == configs[0]
    assert isinstance(scheduler_config, MixedKVCacheConfig)


def test_page_sizes_are_neither_unified_nor_packed(opened: Calls) -> None:
    (config,) = plan_for(hybrid_layers(), [12 * MIB])
    specs = [group.kv_cache_spec for group in config.kv_cache_groups]
    assert {spec.block_size for spec in specs} == {64}
    assert len({spec.page_size_bytes for spec in specs}) == 2


def test_stock_would_have_blown_the_blocks_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    config = vllm_config(scheduler_config__disable_hybrid_kv_cache_manager=False)
    config.cache_config.get_resolved_kv_cache_layout = (
        vllm_config().cache_config.get_resolved_kv_cache_layout
    )
    groups = kv_cache_utils.get_kv_cache_groups(config, hybrid_layers())
    assert len({group.kv_cache_spec.page_size_bytes for group in groups}) == 1


def test_a_model_out_of_scope_gets_stock_vllms_pool_and_none_is_opened(opened: Calls) -> None:
    layers = {f"layers.{i}": attention(sliding_window=64) for i in range(2)}
    (config,) = plan_for(layers, [12 * MIB])
    assert type(config) is KVCacheConfig
    assert opened == []


def test_memory_that_holds_no_whole_request_is_refused(opened: Calls) -> None:
    with pytest.raises(ValueError, match="max seq len"):
        plan_for(hybrid_layers(), [MIB])
    assert opened == []


def test_a_plan_that_holds_no_whole_request_is_never_opened(
    opened: Calls, monkeypatch: pytest.MonkeyPatch
) -> None:
    """vLLM's own check sums before the plan is made; what counts is the plan."""
    monkeypatch.setattr(kv_cache_utils, "_check_enough_kv_cache_memory", lambda *_: None)
    with pytest.raises(PoolTooSmall, match="--max-model-len"):
        plan_for(hybrid_layers(), [MIB])
    assert opened == []


@pytest.mark.parametrize("mib", [3, 4, 6, 12])
def test_the_length_found_for_auto_fit_fits_the_plan(mib: int, opened: Calls) -> None:
    """`max_model_len=-1`: vLLM searches with our sums for the longest request that fits."""
    config = vllm_config(model_config__max_model_len=100_000)
    config.model_config.original_max_model_len = -1
    config.num_prefill_lookahead_tokens = 0
    config.device_config = SimpleNamespace(device_type="cpu")
    hooked = replacements.opening_pool(SETTINGS)(kv_cache_utils.get_kv_cache_configs)
    hooked(config, [hybrid_layers()], [mib * MIB])
    assert 64 <= config.model_config.max_model_len < 100_000
    assert len(opened) == 1


def test_another_plan_at_the_service_is_a_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def open_pool(target: str, **asked: Any) -> OpenedPool:
        plan = make_plan(asked["groups"], asked["pool_bytes"] // 2)
        return OpenedPool("pool", 1, plan, PolicyNames())

    monkeypatch.setattr(opening, "open_pool", open_pool)
    with pytest.raises(PlanMismatch, match="same kvquarry version"):
        plan_for(hybrid_layers(), [12 * MIB])


def test_a_profiling_pool_is_planned_and_not_opened(opened: Calls) -> None:
    """Workers ask for it themselves, before graph capture: an override and no memory."""
    config = vllm_config(cache_config__num_gpu_blocks_override=8)
    groups = kv_cache_utils.get_kv_cache_groups(config, hybrid_layers())
    minimal = kv_cache_utils.get_kv_cache_config_from_groups(config, groups, available_memory=0)
    assert isinstance(minimal, MixedKVCacheConfig)
    assert minimal.pool_id is None
    assert minimal.plan.pool_bytes < 3 * MIB
    assert opened == []


def test_an_override_sets_the_attention_blocks(opened: Calls) -> None:
    (config,) = plan_for(hybrid_layers(), [12 * MIB], cache_config__num_gpu_blocks_override=150)
    assert isinstance(config, MixedKVCacheConfig)
    assert 0 <= 150 - config.num_blocks < config.plan.classes[0].blocks_per_slab


def test_concurrency_is_told_from_the_plan(opened: Calls) -> None:
    (config,) = plan_for(hybrid_layers(), [12 * MIB])
    concurrency = kv_cache_utils.get_max_concurrency_for_kv_cache_config(vllm_config(), config)
    blocks_alone = config.num_blocks / (16 + 2 * 3)
    assert 3 < concurrency < blocks_alone


def test_states_smaller_than_a_page_are_planned_too(opened: Calls) -> None:
    layers = {"a": attention(), "s": state(shapes=((3, 512), (16, 64)))}
    (config,) = plan_for(layers, [4 * MIB])
    assert isinstance(config, MixedKVCacheConfig)
    assert config.num_blocks == config.plan.classes[1].num_blocks


def test_only_our_pools_get_our_manager(opened: Calls) -> None:
    stock_calls = []
    manager = replacements.choosing_manager(lambda **kwargs: stock_calls.append(kwargs))
    stock = KVCacheConfig(num_blocks=1, kv_cache_tensors=[], kv_cache_groups=[])
    manager(kv_cache_config=stock, max_model_len=1)
    assert stock_calls == [{"kv_cache_config": stock, "max_model_len": 1}]
