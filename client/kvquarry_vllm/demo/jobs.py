"""The engine jobs that the demo and the tests run, stock and kvquarry differing in one variable."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from kvquarry_vllm.demo.job import EngineJob, Wave
from kvquarry_vllm.demo.workload import hit_waves

MIB: Final = 1 << 20
HITS_BLOCK_TOKENS: Final = 32
#: The recurrent prefill kernels work in chunks of 64 tokens. Other block sizes move the rounding
#: with the prefix hit, so that outputs are compared at 64 alone.
EQUALITY_BLOCK_TOKENS: Final = 64
ROOMY_POOL_BYTES: Final = 64 * MIB
#: Holds one wave of the equality workload with little to spare, so that bytes change size class.
TIGHT_POOL_BYTES: Final = 20 * MIB

_EQUALITY_MODEL_TOKENS: Final = 1024
_HITS_MODEL_TOKENS: Final = 2048


def stock_env() -> dict[str, str]:
    """Without a target vLLM is stock."""
    return {}


def kvquarry_env(target: str, engine: str) -> dict[str, str]:
    """What switches kvquarry on, and the engine's name at the service."""
    return {"KVQUARRY_TARGET": target, "KVQUARRY_ENGINE": engine}


def hits_job(model: Path, env: Mapping[str, str], **options: Any) -> EngineJob:
    """One prompt at a time, in a pool where nothing is evicted."""
    defaults = {
        "block_size": HITS_BLOCK_TOKENS,
        "max_model_len": _HITS_MODEL_TOKENS,
        "kv_cache_memory_bytes": ROOMY_POOL_BYTES,
    }
    return _job(model, env, hit_waves(), defaults | options)


def equality_job(
    model: Path, env: Mapping[str, str], waves: tuple[Wave, ...], **options: Any
) -> EngineJob:
    """Eleven requests at a time at most, at the block size where outputs are equal bit for bit.

    Stock keeps the roomy pool: it must not preempt, because a resumed request computes by prefill
    what it had decoded, and rounds differently.
    """
    defaults = {
        "block_size": EQUALITY_BLOCK_TOKENS,
        "max_model_len": _EQUALITY_MODEL_TOKENS,
        "kv_cache_memory_bytes": ROOMY_POOL_BYTES,
    }
    return _job(model, env, waves, defaults | options)


def _job(
    model: Path, env: Mapping[str, str], waves: tuple[Wave, ...], options: Mapping[str, Any]
) -> EngineJob:
    common = {
        "skip_tokenizer_init": True,
        "enforce_eager": True,
        "enable_prefix_caching": True,
        "max_num_seqs": 11,
        "max_num_batched_tokens": 2048,
        "seed": 0,
    }
    return EngineJob(str(model), common | state_options(model) | dict(options), waves, dict(env))


def state_options(model: Path) -> dict[str, Any]:
    """What a checkpoint with recurrent layers needs for prefix hits, and no other may be given."""
    layer_types = json.loads((model / "config.json").read_text()).get("layer_types", ())
    return {"mamba_cache_mode": "align"} if "linear_attention" in layer_types else {}
