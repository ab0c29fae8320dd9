"""What an engine's shadow is told once, from what vLLM was configured with."""

from kvquarry_client.scheduling import ShadowSettings
from kvquarry_core.checkpoints import Checkpoints
from kvquarry_core.policies import installed_policies
from kvquarry_core.retention import Boundaries, Dense, Interval, Retention
from kvquarry_vllm.capacity import counted_group
from kvquarry_vllm.config import MixedKVCacheConfig


def shadow_settings(
    kv_cache_config: MixedKVCacheConfig, checkpoints: Checkpoints | None, watermark: float
) -> ShadowSettings:
    """An engine's settings; ``watermark`` is vLLM's share of blocks that admissions leave free."""
    return ShadowSettings(
        max_grant_tokens=kv_cache_config.max_num_batched_tokens,
        lookahead_tokens=kv_cache_config.num_lookahead_tokens,
        must_fit_whole=kv_cache_config.reserve_full_sequence,
        keep_free_blocks=_keep_free(kv_cache_config, watermark),
        checkpoints=checkpoints,
        ahead_tokens=kv_cache_config.ahead_tokens,
        check_steps=kv_cache_config.check_steps,
        in_flight_tokens=kv_cache_config.max_in_flight_tokens,
        moves_blocks=kv_cache_config.moves_blocks,
    )


def _keep_free(kv_cache_config: MixedKVCacheConfig, watermark: float) -> tuple[int, ...]:
    """Blocks by size class; vLLM's watermark is a share of the blocks it counts a pool in."""
    plan, num_blocks = kv_cache_config.plan, int(watermark * kv_cache_config.num_blocks)
    keep_free = [0] * len(plan.classes)
    keep_free[plan.class_of_group[counted_group(plan.groups)]] = num_blocks
    return tuple(keep_free) if num_blocks else ()


def checkpoints_of(kv_cache_config: MixedKVCacheConfig, alignment_tokens: int) -> Checkpoints:
    """Which states and windows stay, where content is cached at all."""
    chosen = installed_policies().make_retention(kv_cache_config.retention)
    interval_tokens = kv_cache_config.prefix_cache_retention_interval
    return Checkpoints(chosen or _retention_of_engine(interval_tokens), alignment_tokens)


def _retention_of_engine(interval_tokens: int | None) -> Retention:
    """What vLLM's ``prefix_cache_retention_interval`` says, kept where chunks happen to end."""
    if interval_tokens is None:
        return Dense()
    return Interval(interval_tokens) if interval_tokens else Boundaries()
