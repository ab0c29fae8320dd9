"""The replacements that all supported versions share.

Each takes vLLM's own function and returns what stands in for it; models that are left to stock
vLLM go straight through. What only one kind of process needs is imported when it is called: every
vLLM process loads this module, front ends too.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any

from vllm.v1.kv_cache_interface import KVCacheConfig, KVCacheGroupSpec, KVCacheSpec

from kvquarry_core.plan import GroupSpec
from kvquarry_vllm import capacity
from kvquarry_vllm.config import MixedKVCacheConfig, mixed_config
from kvquarry_vllm.drafts import pool_groups
from kvquarry_vllm.gates.hooks import Hook
from kvquarry_vllm.gates.kernel_block_hooks import kernel_block_hooks
from kvquarry_vllm.gates.request_check import request_hooks
from kvquarry_vllm.grouping import Grouping, mixed_groups
from kvquarry_vllm.log import logger
from kvquarry_vllm.refusals import refuse_settings
from kvquarry_vllm.scope import reason_for_stock
from kvquarry_vllm.settings import Settings

Function = Callable[..., Any]


def shared_hooks(settings: Settings) -> tuple[Hook, ...]:
    """The hooks that are the same in all supported versions, in the order of an engine's start."""
    return (
        Hook("vllm.v1.executor.abstract", "Executor.__init__", refusing_settings(settings)),
        Hook("vllm.platforms.interface", "Platform._align_hybrid_block_size", keeping_block_size),
        Hook(
            "vllm.v1.core.kv_cache_utils",
            "get_max_concurrency_for_kv_cache_config",
            counting_concurrency,
        ),
        Hook("vllm.v1.engine.core", "get_kv_cache_configs", opening_pool(settings)),
        *kernel_block_hooks(),
        *registering_hooks(settings),
        Hook(
            "vllm.v1.worker.gpu_worker", "Worker.compile_or_warm_up_model", guarding_worker_warm_up
        ),
        Hook("vllm.v1.worker.gpu.warmup", "_warmup_kernels", guarding_kernel_warm_up),
        *zeroing_hooks(),
        Hook(
            "vllm.v1.worker.gpu_model_runner",
            "GPUModelRunner._update_states",
            moving_blocks,
        ),
        Hook("vllm.v1.core.sched.scheduler", "KVCacheManager", choosing_manager),
        Hook("vllm.v1.core.sched.scheduler", "Scheduler.__init__", meeting_scheduler),
        *request_hooks(),
    )


def zeroing_hooks() -> tuple[Hook, ...]:
    """Two generations of model runners build a zeroer; the CPU's zeroes by itself."""
    return (
        Hook(
            "vllm.v1.worker.gpu_model_runner",
            "GPUModelRunner._init_kv_zero_meta",
            making_zeroer("_kv_block_zeroer"),
        ),
        Hook(
            "vllm.v1.worker.gpu.model_runner",
            "GPUModelRunner._init_kv_zero_meta",
            making_zeroer("kv_block_zeroer"),
        ),
        Hook(
            "vllm.v1.worker.cpu_model_runner",
            "CPUModelRunner._zero_block_ids",
            zeroing_by_class,
        ),
    )


def registering_hooks(settings: Settings) -> tuple[Hook, ...]:
    """Workers register from their own process, unless the core can only be reached from another."""
    if settings.target.is_inproc:
        return (
            Hook(
                "vllm.v1.executor.abstract",
                "Executor.initialize_from_config",
                registering_workers(settings),
            ),
        )
    return (
        Hook("vllm.v1.worker.gpu_worker", "Worker.initialize_from_config", registering(settings)),
    )


# Planning functions, behind the hooks of 0.32 and the builder of 0.33 alike.


def groups_or_none(
    vllm_config: Any, specs: dict[str, KVCacheSpec], stock_grouping: Grouping
) -> list[KVCacheGroupSpec] | None:
    """The groups of a model in scope; None, after one log line, for all others."""
    reason = reason_for_stock(vllm_config, specs)
    if reason is not None:
        logger.warning_once("kvquarry leaves this model to stock vLLM's KV cache: %s.", reason)
        return None
    return mixed_groups(specs, stock_grouping)


def config_or_none(
    vllm_config: Any, groups: list[KVCacheGroupSpec], memory_bytes: int
) -> MixedKVCacheConfig | None:
    """The configuration for groups in scope."""
    in_scope = pool_groups_or_none(vllm_config, groups)
    return None if in_scope is None else mixed_config(vllm_config, groups, memory_bytes)


def pool_groups_or_none(
    vllm_config: Any, groups: Sequence[KVCacheGroupSpec]
) -> tuple[GroupSpec, ...] | None:
    """Groups in scope, as the pool sees them."""
    specs = {layer: group.kv_cache_spec for group in groups for layer in group.layer_names}
    return None if reason_for_stock(vllm_config, specs) else pool_groups(vllm_config, groups)


def request_memory_or_none(vllm_config: Any, groups: Sequence[KVCacheGroupSpec]) -> int | None:
    """Bytes for one request of the longest length, less the block vLLM itself sets aside."""
    in_scope = pool_groups_or_none(vllm_config, groups)
    if in_scope is None:
        return None
    largest = capacity.largest_request(vllm_config)
    needed_bytes = capacity.memory_for_request(in_scope, largest)
    return needed_bytes - capacity.bytes_per_attention_block(in_scope)


# Replacements.


def refusing_settings(settings: Settings) -> Callable[[Function], Function]:
    """``Executor.__init__``: before any worker is started or any weight loaded."""

    def replace(original: Function) -> Function:
        @functools.wraps(original)
        def init(self: Any, vllm_config: Any, *args: Any, **kwargs: Any) -> None:
            from kvquarry_client.engine import check_retention

            refuse_settings(settings, vllm_config)
            check_retention(settings.policies)
            original(self, vllm_config, *args, **kwargs)

        return init

    return replace


def keeping_block_size(original: Function) -> Function:
    """``Platform._align_hybrid_block_size``, in the worker, once its layers exist."""

    @functools.wraps(original)
    def align(cls: Any, vllm_config: Any, backend_cls: Any) -> None:
        from kvquarry_vllm.alignment import keeps_block_size

        if not keeps_block_size(vllm_config):
            original(cls, vllm_config, backend_cls)

    return align


def counting_concurrency(original: Function) -> Function:
    """``get_max_concurrency_for_kv_cache_config``: stock divides by one number of blocks."""

    @functools.wraps(original)
    def concurrency(vllm_config: Any, kv_cache_config: KVCacheConfig) -> float:
        if not isinstance(kv_cache_config, MixedKVCacheConfig):
            return float(original(vllm_config, kv_cache_config))
        largest = capacity.largest_request(vllm_config)
        return capacity.max_concurrency(kv_cache_config.plan, largest)

    return concurrency


def opening_pool(settings: Settings) -> Callable[[Function], Function]:
    """``get_kv_cache_configs``, where the engine core calls it: once, and never for profiling.

    All workers get the memory of the poorest: equal memory gives equal plans.
    """

    def replace(original: Function) -> Function:
        @functools.wraps(original)
        def get_kv_cache_configs(
            vllm_config: Any,
            kv_cache_specs: list[dict[str, KVCacheSpec]],
            available_memory: list[int],
            *groups: Any,
        ) -> list[KVCacheConfig]:
            specs = {name: spec for worker in kv_cache_specs for name, spec in worker.items()}
            if reason_for_stock(vllm_config, specs) is None:
                available_memory = [min(available_memory)] * len(available_memory)
            configs: list[KVCacheConfig] = original(
                vllm_config, kv_cache_specs, available_memory, *groups
            )
            ours = [config for config in configs if isinstance(config, MixedKVCacheConfig)]
            if ours:
                from kvquarry_vllm.opening import open_for

                open_for(settings, vllm_config, ours)
            return configs

        return get_kv_cache_configs

    return replace


def registering(settings: Settings) -> Callable[[Function], Function]:
    """``Worker.initialize_from_config``: tensors are built, no request has come yet."""

    def replace(original: Function) -> Function:
        @functools.wraps(original)
        def initialize_from_config(self: Any, kv_cache_config: KVCacheConfig) -> None:
            original(self, kv_cache_config)
            if isinstance(kv_cache_config, MixedKVCacheConfig):
                from kvquarry_vllm.worker import register_built

                register_built(settings, self, kv_cache_config)

        return initialize_from_config

    return replace


def registering_workers(settings: Settings) -> Callable[[Function], Function]:
    """``Executor.initialize_from_config``: all workers have built their tensors."""

    def replace(original: Function) -> Function:
        @functools.wraps(original)
        def initialize_from_config(self: Any, kv_cache_configs: list[KVCacheConfig]) -> None:
            original(self, kv_cache_configs)
            ours = [c for c in kv_cache_configs if isinstance(c, MixedKVCacheConfig)]
            if ours:
                from kvquarry_vllm.worker import register_through

                register_through(settings, self, ours)

        return initialize_from_config

    return replace


def guarding_worker_warm_up(original: Function) -> Function:
    """``Worker.compile_or_warm_up_model``: all of warm-up and graph capture."""

    @functools.wraps(original)
    def compile_or_warm_up_model(self: Any) -> Any:
        from kvquarry_vllm.warmup import only_common_ids

        with only_common_ids(self.model_runner):
            return original(self)

    return compile_or_warm_up_model


def guarding_kernel_warm_up(original: Function) -> Function:
    """``_warmup_kernels``: runs one request at least, so not at all where that has no ids."""

    @functools.wraps(original)
    def _warmup_kernels(model_runner: Any, *args: Any, **kwargs: Any) -> None:
        from kvquarry_vllm.warmup import has_ids_for_one_request, only_common_ids

        if not has_ids_for_one_request(model_runner):
            logger.warning("kvquarry skips vLLM's kernel warm-up: too few states for one request.")
            return
        with only_common_ids(model_runner):
            original(model_runner, *args, **kwargs)

    return _warmup_kernels


def making_zeroer(attribute: str) -> Callable[[Function], Function]:
    """``GPUModelRunner._init_kv_zero_meta``: tensors are bound, no request has come yet."""

    def replace(original: Function) -> Function:
        @functools.wraps(original)
        def _init_kv_zero_meta(self: Any) -> None:
            if not isinstance(self.kv_cache_config, MixedKVCacheConfig):
                original(self)
                return
            from kvquarry_vllm.zeroing import zeroer_of

            setattr(self, attribute, zeroer_of(self))

        return _init_kv_zero_meta

    return replace


def zeroing_by_class(original: Function) -> Function:
    """``CPUModelRunner._zero_block_ids``: stock zeroes the same ids in all attention layers."""

    @functools.wraps(original)
    def _zero_block_ids(self: Any, block_ids: Any) -> None:
        if isinstance(self.kv_cache_config, MixedKVCacheConfig):
            self._kv_block_zeroer.zero_block_ids(block_ids)
        else:
            original(self, block_ids)

    return _zero_block_ids


def moving_blocks(original: Function) -> Function:
    """``GPUModelRunner._update_states``: the first thing a step does in a worker."""

    @functools.wraps(original)
    def _update_states(self: Any, scheduler_output: Any) -> Any:
        if isinstance(self.kv_cache_config, MixedKVCacheConfig):
            from kvquarry_vllm.relocation import move_blocks

            move_blocks(self, scheduler_output)
        return original(self, scheduler_output)

    return _update_states


def choosing_manager(original: Function) -> Function:
    """``KVCacheManager``, as the scheduler constructs it."""

    def kv_cache_manager(*, kv_cache_config: KVCacheConfig, **kwargs: Any) -> Any:
        if not isinstance(kv_cache_config, MixedKVCacheConfig):
            return original(kv_cache_config=kv_cache_config, **kwargs)
        from kvquarry_vllm.manager import make_kv_cache_manager

        return make_kv_cache_manager(kv_cache_config=kv_cache_config, **kwargs)

    return kv_cache_manager


def meeting_scheduler(original: Function) -> Function:
    """``Scheduler.__init__``: the pool is open by then, and its retention known."""

    @functools.wraps(original)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        if isinstance(self.kv_cache_config, MixedKVCacheConfig):
            from kvquarry_vllm.chunks import end_chunks_where_wanted
            from kvquarry_vllm.line import WaitingLine

            end_chunks_where_wanted(self)
            self.kv_cache_manager.line = WaitingLine(self)

    return init
