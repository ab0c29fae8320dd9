"""Settings that cannot work with blocks of several sizes, refused before anything is loaded.

A model that is out of scope falls back to stock vLLM (:mod:`kvquarry_vllm.scope`); a setting the
user can change is refused instead, so that nobody runs stock vLLM and believes otherwise.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kvquarry_vllm.settings import Settings


class SettingRefused(ValueError):
    """A vLLM setting that cannot work with kvquarry; the message says what to change."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One setting that cannot work.

    Attributes:
        setting: As the user writes it.
        is_set: Whether a configuration has it.
        why: What would go wrong.
        change: What to do instead.
    """

    setting: str
    is_set: Callable[[Any], bool]
    why: str
    change: str

    def message(self) -> str:
        """What the user gets to read."""
        return (
            f"kvquarry cannot work with {self.setting}: {self.why}. "
            f"{self.change}, or unset KVQUARRY_TARGET to run stock vLLM."
        )


def refuse_settings(settings: Settings, vllm_config: Any) -> None:
    """Raise for the first setting that cannot work.

    Raises:
        SettingRefused: With the setting's name and what to change.
    """
    rules = (
        *RULES,
        *(INPROC_RULES if settings.target.is_inproc else ()),
        *(RELOCATION_RULES if settings.moves_blocks else ()),
    )
    for rule in rules:
        if rule.is_set(vllm_config):
            raise SettingRefused(rule.message())


def _is_hybrid(vllm_config: Any) -> bool:
    return bool(vllm_config.model_config is not None and vllm_config.model_config.is_hybrid)


RULES = (
    Rule(
        "--kv-transfer-config",
        lambda c: c.kv_transfer_config is not None,
        "KV connectors and offloading take a block id for a place in memory, and here the place "
        "depends on the block's size too",
        "Remove --kv-transfer-config (and --kv-offloading-size, which implies it)",
    ),
    Rule(
        "--mamba-cache-mode all",
        lambda c: c.cache_config.mamba_cache_mode == "all",
        "states are kept at block boundaries only",
        "Set --mamba-cache-mode align",
    ),
    Rule(
        "prefix caching turned off for a model with recurrent states",
        lambda c: _is_hybrid(c) and c.cache_config.mamba_cache_mode == "none",
        "states are then not kept at block boundaries",
        "Set --enable-prefix-caching --mamba-cache-mode align",
    ),
    Rule(
        "--prefix-match-unit",
        lambda c: c.cache_config.prefix_match_unit is not None,
        "hits inside a block copy blocks as if all had one size",
        "Remove it; a smaller --block-size gives hits as fine",
    ),
    Rule(
        "--enable-mamba-shared-prefix-checkpoint",
        lambda c: c.cache_config.enable_mamba_shared_prefix_checkpoint,
        "it needs hits inside a block",
        "Remove it",
    ),
    Rule(
        "--kv-cache-dtype-skip-layers",
        lambda c: _is_hybrid(c) and bool(c.cache_config.kv_cache_dtype_skip_layers),
        "vLLM would raise the block size until the pages of both precisions fit each other",
        "Remove it",
    ),
    Rule(
        "--use-replayssm",
        lambda c: c.cache_config.use_replayssm,
        "its cursors are kept per block id outside the pool",
        "Remove it",
    ),
    Rule(
        "--decode-context-parallel-size",
        lambda c: c.parallel_config.decode_context_parallel_size > 1,
        "attention blocks would be spread over ranks and states would not",
        "Set it to 1",
    ),
    Rule(
        "--prefill-context-parallel-size",
        lambda c: c.parallel_config.prefill_context_parallel_size > 1,
        "attention blocks would be spread over ranks and states would not",
        "Set it to 1",
    ),
    Rule(
        "--pipeline-parallel-size",
        lambda c: c.parallel_config.pipeline_parallel_size > 1,
        "stages hold different layers and would cut their memory differently",
        "Set it to 1; tensor parallelism works",
    ),
    Rule(
        "--distributed-executor-backend external_launcher",
        lambda c: c.parallel_config.distributed_executor_backend == "external_launcher",
        "each rank would open a pool of its own",
        "Set it to mp or ray",
    ),
    Rule(
        "--enable-elastic-ep",
        lambda c: c.parallel_config.enable_elastic_ep,
        "workers that come and go cannot agree on a pool",
        "Remove it",
    ),
    Rule(
        "the HiSparse configuration (--attention-config hisparse_config)",
        lambda c: c.attention_config.hisparse_config is not None,
        "it keeps blocks in a host pool of its own",
        "Remove it",
    ),
    Rule(
        "--disable-hybrid-kv-cache-manager",
        lambda c: _is_hybrid(c) and c.scheduler_config.disable_hybrid_kv_cache_manager is True,
        "attention and states need groups of their own",
        "Remove it",
    ),
)

INPROC_RULES = (
    Rule(
        "KVQUARRY_TARGET=inproc: and more than one worker (--tensor-parallel-size)",
        lambda c: c.parallel_config.world_size > 1,
        "only the service compares what several workers built",
        "Start `kvquarry serve` and set KVQUARRY_TARGET to its socket",
    ),
)

RELOCATION_RULES = (
    Rule(
        "KVQUARRY_RELOCATION and --speculative-config",
        lambda c: c.speculative_config is not None,
        "a draft model's runner keeps block tables of its own",
        "Unset KVQUARRY_RELOCATION",
    ),
    Rule(
        "KVQUARRY_RELOCATION and the V2 model runner (VLLM_USE_V2_MODEL_RUNNER)",
        lambda c: c.use_v2_model_runner,
        "its block tables cannot be renamed yet",
        "Unset KVQUARRY_RELOCATION",
    ),
)
