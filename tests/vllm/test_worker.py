"""A worker registers what it built, and a refusal says which worker and what differs."""

import pickle
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from vllm.v1.kv_cache_interface import MambaSpec
from vllm.v1.worker.utils import allocate_kv_cache

from kvquarry_client import registration
from kvquarry_client.errors import ServiceError
from kvquarry_client.inproc import open_inproc
from kvquarry_client.target import parse_target
from kvquarry_core.errors import UsageError
from kvquarry_core.worker_layout import check_worker
from kvquarry_vllm import worker as worker_module
from kvquarry_vllm.config import MixedKVCacheConfig
from kvquarry_vllm.gates.replacements import (
    registering,
    registering_hooks,
    registering_workers,
)
from kvquarry_vllm.settings import Settings
from kvquarry_vllm.worker import WorkerRefused, memory_of, register_built
from tests.vllm.configurations import (
    LAYOUTS,
    hybrid_layers,
    pool_config,
    runner_with,
    vllm_config,
)
from tests.vllm.test_geometry import built_by_vllm

SETTINGS = Settings(parse_target("inproc:"), "engine", 1.0)


def built(config: MixedKVCacheConfig, kernel_block_tokens: int = 64, rank: int = 0) -> Any:
    """A vLLM worker whose layers are bound as vLLM binds them."""
    bound = built_by_vllm(config, kernel_block_tokens)
    vllm = vllm_config()
    vllm.compilation_config.static_forward_context = {
        name: SimpleNamespace(kv_cache=tensors if len(tensors) > 1 else tensors[0])
        for name, tensors in bound.items()
    }
    return SimpleNamespace(
        vllm_config=vllm,
        model_runner=runner_with(config, [[kernel_block_tokens]]),
        parallel_config=vllm.parallel_config,
        rank=rank,
        device=torch.device("cpu"),
    )


@pytest.mark.parametrize("kernel_block_tokens", [64, 32])
def test_what_vllm_built_is_what_the_plan_asks_for(kernel_block_tokens: int) -> None:
    config = pool_config(hybrid_layers())
    memory = memory_of(built(config, kernel_block_tokens), config)
    check_worker(config.plan, memory.views, memory.buffer_bytes)
    assert {view.layer for view in memory.views} == hybrid_layers().keys()
    assert memory.buffer_bytes == config.plan.pool_bytes
    assert (memory.rank, memory.num_workers, memory.device) == (0, 1, "cpu")


def test_tensors_that_are_cut_otherwise_than_selected_do_not_fit() -> None:
    config = pool_config(hybrid_layers())
    worker = built(config, kernel_block_tokens=32)
    worker.model_runner = runner_with(config, [[64]])
    memory = memory_of(worker, config)
    with pytest.raises(UsageError):
        check_worker(config.plan, memory.views, memory.buffer_bytes)


def test_a_runner_that_never_asked_for_kernel_blocks_is_refused() -> None:
    config = pool_config(hybrid_layers())
    worker = built(config)
    worker.model_runner = SimpleNamespace(kv_cache_config=config)
    with pytest.raises(WorkerRefused, match=r"SimpleNamespace .*kernel blocks.*KVQUARRY_TARGET"):
        memory_of(worker, config)


def test_equal_workers_have_equal_digests_and_others_do_not() -> None:
    config = pool_config(hybrid_layers())
    digest = memory_of(built(config), config).digest
    assert memory_of(built(config, rank=1), config).digest == digest
    assert memory_of(built(config, kernel_block_tokens=32), config).digest != digest


def test_a_state_split_otherwise_shows_in_the_digest() -> None:
    """Offsets and strides of the blocks agree; only the tensors within a block differ."""
    config = pool_config(hybrid_layers())
    worker = built(config)
    expected = memory_of(worker, config)
    layer = worker.vllm_config.compilation_config.static_forward_context["layers.0"]
    conv, ssm = layer.kv_cache
    layer.kv_cache = (conv, ssm.transpose(2, 3))
    changed = memory_of(worker, config)
    assert changed.views == expected.views
    assert changed.digest != expected.digest


def test_a_worker_of_this_process_opens_the_way_for_blocks() -> None:
    config = pool_config(hybrid_layers())
    pool_id, ledger = open_inproc(config.plan)
    config.target, config.pool_id, config.incarnation = "inproc:", pool_id, 1
    assert not ledger.has_worker
    register_built(SETTINGS, built(config), config)
    assert ledger.has_worker


def test_a_worker_with_other_tensors_is_refused_by_name() -> None:
    config = pool_config(hybrid_layers())
    pool_id, ledger = open_inproc(config.plan)
    config.target, config.pool_id, config.incarnation = "inproc:", pool_id, 1
    for tensor in config.kv_cache_tensors:
        tensor.block_stride -= 64
    with pytest.raises(WorkerRefused, match=r"worker 0 of 1 on cpu.*stride"):
        register_built(SETTINGS, built(config), config)
    assert not ledger.has_worker


def test_a_refusal_by_the_service_names_worker_pool_and_difference(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise ServiceError("LAYOUT_MISMATCH", "layer layers.0 has 3 blocks", {})

    monkeypatch.setattr(worker_module, "register_worker", refuse)
    config = pool_config(hybrid_layers())
    config.target, config.pool_id, config.incarnation = "unix:/run/q.sock", "pool-1", 1
    with pytest.raises(WorkerRefused, match=r"worker 0 .*pool-1.*layers\.0 has 3 blocks"):
        register_built(SETTINGS, built(config), config)


def test_a_worker_in_another_process_is_registered_by_the_scheduler() -> None:
    """The CPU build has its worker in a process of its own, which sees no core in this one."""
    config = pool_config(hybrid_layers())
    pool_id, ledger = open_inproc(config.plan)
    config.target, config.pool_id, config.incarnation = "inproc:", pool_id, 1
    asked = []

    class Executor:
        def collective_rpc(self, method: Any, args: tuple[Any, ...]) -> list[Any]:
            asked.append(ledger.has_worker)
            there = pickle.loads(pickle.dumps((method, args)))
            return [pickle.loads(pickle.dumps(there[0](built(config), *there[1])))]

    initialize = registering_workers(SETTINGS)(lambda self, configs: None)
    initialize(Executor(), [config])
    assert (asked, ledger.has_worker) == ([False], True)
    initialize(None, [SimpleNamespace(num_blocks=1)])


@pytest.mark.parametrize("target", ["inproc:", "unix:/run/q.sock"])
def test_there_is_one_place_where_workers_register(target: str) -> None:
    hooks = registering_hooks(Settings(parse_target(target), "engine", 1.0))
    place = "Executor" if target == "inproc:" else "Worker"
    assert [hook.name for hook in hooks] == [f"{place}.initialize_from_config"]


def test_registration_follows_the_tensors_and_stock_pools_have_none() -> None:
    order = []
    config = pool_config(hybrid_layers())
    pool_id, ledger = open_inproc(config.plan)
    config.target, config.pool_id, config.incarnation = "inproc:", pool_id, 1
    initialize = registering(SETTINGS)(lambda self, _: order.append(ledger.has_worker))
    initialize(built(config), config)
    assert (order, ledger.has_worker) == ([False], True)
    initialize(None, SimpleNamespace(num_blocks=1))
    assert order == [False, True]


def test_the_wire_carries_every_field() -> None:
    config = pool_config(hybrid_layers())
    memory = memory_of(built(config), config)
    request = registration._request("pool-1", 4, memory)
    assert (request.pool_id, request.incarnation, request.rank) == ("pool-1", 4, 0)
    assert (request.worker_count, request.device) == (1, "cpu")
    assert (request.buffer_size_bytes, request.digest) == (memory.buffer_bytes, memory.digest)
    sent = {
        (v.layer, v.group, v.offset_bytes, v.stride_bytes, v.block_count) for v in request.layers
    }
    assert sent == {
        (v.layer, v.group, v.offset_bytes, v.stride_bytes, v.num_blocks) for v in memory.views
    }


def test_states_are_the_layers_own_tensors() -> None:
    """Registration reads the tensors a Mamba layer uses, not the raw page they are cut from."""
    config = pool_config(hybrid_layers())
    raw = allocate_kv_cache(config, torch.device("cpu"), LAYOUTS.LBHNC)["layers.0"]
    spec = config.kv_cache_groups[config.group_of_layer("layers.0")].kv_cache_spec
    assert isinstance(spec, MambaSpec)
    assert raw.dtype == torch.int8
    context = built(config).vllm_config.compilation_config.static_forward_context
    assert [t.dtype for t in context["layers.0"].kv_cache] == list(spec.dtypes)
