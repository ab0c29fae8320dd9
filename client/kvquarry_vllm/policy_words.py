"""What an engine says of its pool's policies when it starts."""

import math
from collections.abc import Sequence

from kvquarry_core.checkpoints import Checkpoints
from kvquarry_core.plan import GroupKind
from kvquarry_core.policies import PolicyNames
from kvquarry_core.retention import Boundaries, Dense, Interval
from kvquarry_vllm.config import MixedKVCacheConfig
from kvquarry_vllm.shadow_settings import checkpoints_of

# Of the others everything stays that a hit may read, whatever the retention.
_RETAINED = frozenset({GroupKind.RECURRENT_STATE, GroupKind.SLIDING_WINDOW})


def policies_said(config: MixedKVCacheConfig, names: PolicyNames) -> str:
    """All four by name, and what the retention comes to in this engine."""
    notes = [*_engines_own(config), *_widened(config)]
    retention = f"{names.retention} ({'; '.join(notes)})" if notes else names.retention
    return (
        f"placement {names.placement}, eviction {names.eviction}, relocation {names.relocation}, "
        f"retention {retention}"
    )


def is_widened(config: MixedKVCacheConfig) -> bool:
    """Whether checkpoints are further apart than was asked for."""
    return bool(_widened(config))


def _engines_own(config: MixedKVCacheConfig) -> Sequence[str]:
    if config.retention != PolicyNames().retention:
        return ()
    match _checkpoints(config).retention:
        case Dense():
            rule = "dense"
        case Boundaries():
            rule = "boundaries"
        case Interval(tokens):
            rule = f"boundaries, and multiples of {tokens} where chunks end"
        case _:  # A package offers its own under this name.
            return ()
    interval = config.prefix_cache_retention_interval
    return (f"prefix_cache_retention_interval {interval}: {rule}",)


def _widened(config: MixedKVCacheConfig) -> Sequence[str]:
    kept = _checkpoints(config)
    if not isinstance(kept.retention, Interval) or not _RETAINED.intersection(
        group.kind for group in config.plan.groups
    ):
        return ()
    tokens = kept.interval_tokens
    if tokens == kept.retention.interval_tokens:
        return ()
    return (f"every {tokens} tokens: hits end at multiples of {kept.alignment_tokens}",)


def _checkpoints(config: MixedKVCacheConfig) -> Checkpoints:
    # Where all groups' blocks end, as vLLM's scheduler aligns them, too.
    groups = config.kv_cache_groups
    return checkpoints_of(config, math.lcm(*(group.kv_cache_spec.block_size for group in groups)))
