"""vLLM's own warm-up, driven with our configuration, stays within the ids that exist."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from vllm.v1.kv_cache_interface import AttentionSpec, KVCacheSpec
from vllm.v1.worker.gpu import warmup

from kvquarry_vllm.config import MixedKVCacheConfig
from kvquarry_vllm.gates.hooks import original_of
from kvquarry_vllm.gates.replacements import guarding_kernel_warm_up, guarding_worker_warm_up
from kvquarry_vllm.warmup import only_common_ids
from tests.vllm.configurations import attention, hybrid_layers, pool_config, state

Ids = dict[int, set[int]]


class RecordingRunner:
    """As much of vLLM's V2 model runner as warm-up touches; remembers the block ids it gets."""

    def __init__(self, config: MixedKVCacheConfig, max_num_seqs: int = 256) -> None:
        self.kv_cache_config = config
        self.ids: Ids = {index: set() for index in range(len(config.kv_cache_groups))}
        self.num_blocks_seen: set[int] = set()
        self.vllm_config = SimpleNamespace(is_mm_encoder_only=False, num_lookahead_tokens=0)
        self.scheduler_config = SimpleNamespace(
            max_num_seqs=max_num_seqs, max_num_batched_tokens=8192
        )
        self.model_config = SimpleNamespace(get_vocab_size=lambda: 512)
        self.model_state = SimpleNamespace(max_encoder_len=0)
        self.kv_connector = SimpleNamespace(set_disabled=lambda _: None)
        self.block_tables = SimpleNamespace(redirect_writes_to_null_block=False)
        self.adaptive_verification = None
        self.rejection_sampler = None
        self.kv_block_zeroer = None
        self.num_speculative_steps = 0
        self.decode_query_len = 1
        self.max_model_len = 4096
        self.max_num_reqs = max_num_seqs
        self.is_pooling_model = False
        self.is_encoder_decoder = False
        self.is_last_pp_rank = True

    def execute_model(self, scheduler_output: Any) -> None:
        cached = [ids for ids in scheduler_output.scheduled_cached_reqs.new_block_ids if ids]
        new = [request.block_ids for request in scheduler_output.scheduled_new_reqs]
        for by_group in (*new, *cached):
            for group, ids in enumerate(by_group):
                self.ids[group].update(ids)
        self.num_blocks_seen.add(self.kv_cache_config.num_blocks)

    def sample_tokens(self, grammar_output: Any) -> None:
        pass

    def ids_that_do_not_exist(self) -> Ids:
        """Block ids it was given beyond the last one of their size class, by group."""
        plan = self.kv_cache_config.plan
        beyond = {
            group: {i for i in ids if i >= plan.classes[plan.class_of_group[group]].num_blocks}
            for group, ids in self.ids.items()
        }
        return {group: ids for group, ids in beyond.items() if ids}


@pytest.fixture(autouse=True)
def _no_accelerator(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.accelerator, "synchronize", lambda *_: None)


@pytest.fixture
def hooked(monkeypatch: pytest.MonkeyPatch) -> None:
    """The gate's hook, for one test."""
    replacement = guarding_kernel_warm_up(warmup._warmup_kernels)
    monkeypatch.setattr(warmup, "_warmup_kernels", replacement)


def run_kernel_warm_up(runner: RecordingRunner) -> None:
    warmup.warmup_kernels(runner, runner.execute_model, runner.sample_tokens)


def run_mixed_warm_up(runner: RecordingRunner, num_tokens: int) -> bool:
    return warmup.run_mixed_prefill_decode_warmup(
        runner,
        runner.execute_model,
        runner.sample_tokens,
        num_tokens,
        mixed_step_context=nullcontext(),
    )


def test_unguarded_kernel_warm_up_uses_states_that_do_not_exist() -> None:
    """The danger is real: without the guard this very configuration goes out of bounds."""
    runner = RecordingRunner(pool_config(hybrid_layers()))
    run_kernel_warm_up(runner)
    assert runner.ids_that_do_not_exist()


@pytest.mark.usefixtures("hooked")
def test_guarded_kernel_warm_up_stays_within_every_class() -> None:
    runner = RecordingRunner(pool_config(hybrid_layers()))
    run_kernel_warm_up(runner)
    assert all(runner.ids.values())
    assert runner.ids_that_do_not_exist() == {}


@pytest.mark.usefixtures("hooked")
@pytest.mark.parametrize("max_num_seqs", [1, 3, 64])
@pytest.mark.parametrize("mib", [2, 5, 40])
def test_the_guard_holds_for_pools_and_batches_of_any_size(mib: int, max_num_seqs: int) -> None:
    runner = RecordingRunner(pool_config(hybrid_layers(), mib << 20), max_num_seqs)
    run_kernel_warm_up(runner)
    assert runner.ids_that_do_not_exist() == {}


def many_state_groups() -> dict[str, KVCacheSpec]:
    """One attention layer and twelve states: a single request needs an id in 13 groups."""
    return {"a": attention(), **{f"s.{index}": state() for index in range(12)}}


def test_unguarded_warm_up_runs_a_request_that_has_no_states() -> None:
    runner = RecordingRunner(pool_config(many_state_groups(), 700_000))
    with only_common_ids(runner):
        run_kernel_warm_up(runner)
    assert runner.ids_that_do_not_exist()


@pytest.mark.usefixtures("hooked")
def test_warm_up_is_left_out_where_not_even_one_request_has_states() -> None:
    runner = RecordingRunner(pool_config(many_state_groups(), 700_000))
    run_kernel_warm_up(runner)
    assert not any(runner.ids.values())


def test_unguarded_mixed_warm_up_uses_states_that_do_not_exist() -> None:
    runner = RecordingRunner(pool_config(hybrid_layers()))
    assert run_mixed_warm_up(runner, 1800)
    assert runner.ids_that_do_not_exist()


@pytest.mark.parametrize("num_tokens", [3, 200, 800, 1800, 4000])
def test_guarded_mixed_warm_up_stays_within_every_class(num_tokens: int) -> None:
    runner = RecordingRunner(pool_config(hybrid_layers()))
    worker = SimpleNamespace(model_runner=runner)
    guarded = guarding_worker_warm_up(lambda self: run_mixed_warm_up(self.model_runner, num_tokens))
    guarded(worker)
    assert runner.ids_that_do_not_exist() == {}


def test_after_warm_up_the_runner_counts_attention_blocks_again() -> None:
    config = pool_config(hybrid_layers())
    runner = RecordingRunner(config)
    with only_common_ids(runner):
        assert runner.kv_cache_config.num_blocks == config.num_blocks_of_smallest_class
    assert runner.kv_cache_config is config


@pytest.mark.parametrize("mib", [8, 12])
def test_warm_up_changes_the_count_for_the_runner_alone(mib: int) -> None:
    """Whoever else holds the configuration builds from it what its tensors have."""
    config = pool_config(hybrid_layers(), mib << 20)
    num_blocks = config.num_blocks
    assert config.num_blocks_of_smallest_class < num_blocks
    with only_common_ids(RecordingRunner(config)):
        assert config.num_blocks == num_blocks


def test_a_warm_up_that_fails_leaves_the_count_as_it_was() -> None:
    config = pool_config(hybrid_layers())

    def fail(worker: Any) -> None:
        raise MemoryError

    worker = SimpleNamespace(model_runner=RecordingRunner(config))
    with pytest.raises(MemoryError):
        guarding_worker_warm_up(fail)(worker)
    assert worker.model_runner.kv_cache_config is config


@pytest.mark.parametrize("runner", [SimpleNamespace(), SimpleNamespace(kv_cache_config="stock")])
def test_a_stock_runner_is_left_alone(runner: SimpleNamespace) -> None:
    before = vars(runner).copy()
    with only_common_ids(runner):
        assert vars(runner) == before


def test_attention_blocks_may_use_every_common_id() -> None:
    """The guard takes no more than it must: warm-up fills what all classes have."""
    config = pool_config(hybrid_layers())
    runner = RecordingRunner(config)
    with only_common_ids(runner):
        run_kernel_warm_up(runner)
    highest = max(max(ids) for ids in runner.ids.values())
    assert highest >= config.num_blocks_of_smallest_class - len(config.kv_cache_groups)
    assert any(isinstance(g.kv_cache_spec, AttentionSpec) for g in config.kv_cache_groups)
    assert original_of(warmup._warmup_kernels) is None
