"""From a finished plan to an open pool, in the process that holds the scheduler."""

import logging
from collections.abc import Sequence
from typing import Any

from kvquarry_client.engine import OpenedPool, open_pool
from kvquarry_client.errors import PlanMismatch
from kvquarry_core.policies import PolicyNames
from kvquarry_vllm import capacity
from kvquarry_vllm.config import MixedKVCacheConfig
from kvquarry_vllm.log import logger
from kvquarry_vllm.policy_words import is_widened, policies_said
from kvquarry_vllm.settings import Settings
from kvquarry_vllm.work import model_work


class PoolTooSmall(ValueError):
    """The memory does not hold one request of the model's longest length."""


def open_for(settings: Settings, vllm_config: Any, configs: Sequence[MixedKVCacheConfig]) -> None:
    """Open the engine's pool and write its name into the configuration of every worker.

    Raises:
        PoolTooSmall: Even an empty pool could not run the longest request.
        ServiceUnavailable: Nobody answered at the target in time.
        ServiceError: The service refused.
    """
    config = configs[0]
    assert all(other.plan == config.plan for other in configs), "workers got different plans"
    _check_capacity(config, capacity.largest_request(vllm_config))
    engine = settings.engine_of(vllm_config.parallel_config)
    opened = open_pool(
        settings.target.text,
        engine=engine,
        groups=config.plan.groups,
        pool_bytes=config.memory_bytes,
        num_workers=len(configs),
        model=vllm_config.model_config.model,
        connect_timeout_s=settings.connect_timeout_s,
        policies=settings.policies,
        pin_cap=settings.pin_cap,
        work=model_work(vllm_config.model_config),
        hears_evictions=publishes_events(vllm_config.kv_events_config),
    )
    _check_same_plan(config, opened)
    for worker_config in configs:
        worker_config.target = settings.target.text
        worker_config.engine = engine
        worker_config.ahead_tokens = settings.ahead_tokens
        worker_config.check_steps = settings.check_steps
        worker_config.moves_blocks = settings.moves_blocks
        worker_config.retention = opened.policies.retention
        worker_config.pool_id = opened.pool_id
        worker_config.incarnation = opened.incarnation
    _say_what_is_open(config, opened.policies)


def publishes_events(kv_events_config: Any) -> bool:
    """Whether routers are told what is cached; as the scheduler asks it."""
    return kv_events_config is not None and kv_events_config.enable_kv_cache_events


def _check_capacity(config: MixedKVCacheConfig, largest: capacity.RequestSize) -> None:
    if capacity.fits_one_request(config.plan, largest):
        return
    needed_bytes = capacity.memory_for_request(config.plan.groups, largest)
    raise PoolTooSmall(
        f"{config.memory_bytes} bytes of KV cache do not hold one request of max_model_len "
        f"{largest.num_tokens}, which needs about {needed_bytes} bytes. Lower --max-model-len, or "
        "give the cache more memory (--gpu-memory-utilization, --kv-cache-memory-bytes, "
        "VLLM_CPU_KVCACHE_SPACE)."
    )


def _check_same_plan(config: MixedKVCacheConfig, opened: OpenedPool) -> None:
    if opened.plan != config.plan:
        raise PlanMismatch(
            f"this engine cut its pool as {config.plan}, the service as {opened.plan}; run the "
            "same kvquarry version on both sides"
        )


def _say_what_is_open(config: MixedKVCacheConfig, policies: PolicyNames) -> None:
    plan = config.plan
    logger.log(
        # Who chose an interval is to see that it is not what he gets.
        logging.WARNING if is_widened(config) else logging.INFO,
        "kvquarry pool %s of engine %s at %s: %d slabs; %s; %s",
        config.pool_id,
        config.engine,
        config.target,
        plan.num_slabs,
        "; ".join(
            f"{c.num_blocks} blocks of {c.page_bytes} bytes a layer ({_padding(c)})"
            for c in plan.classes
        ),
        policies_said(config, policies),
    )


def _padding(size_class: Any) -> str:
    padding = size_class.stride_bytes - size_class.page_bytes
    return f"{100 * padding / size_class.stride_bytes:.1f} % padding"
