"""vLLM configurations for schedulers that never see a model."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from vllm.config import CacheConfig, ModelConfig, SchedulerConfig, SpeculativeConfig, VllmConfig

from tests.scheduler.worker import NO_DRAFTS, DraftScript

#: Enough of a model for vLLM to make a configuration of; the layers are those of the KV cache.
_MODEL = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "vocab_size": 1000,
    "max_position_embeddings": 4096,
    "torch_dtype": "float32",
}


@dataclass(frozen=True)
class SchedulerSettings:
    """What a scheduler is configured with.

    Attributes:
        max_num_seqs: Requests that run at once.
        max_num_batched_tokens: Tokens of one step.
        max_model_len: Tokens of a request, output included.
        drafts: What the worker guesses; no drafts, no speculative decoding.
        watermark: Share of the pool that admissions leave free.
        long_prefill_token_threshold: The longest chunk of a prefill while others run; 0 for none.
        policy: ``fcfs`` or ``priority``.
        reserves_full_prompt: Whether a request is admitted only if all of its prompt fits.
    """

    max_num_seqs: int = 8
    max_num_batched_tokens: int = 256
    max_model_len: int = 1024
    drafts: DraftScript = NO_DRAFTS
    watermark: float = 0.0
    long_prefill_token_threshold: int = 0
    policy: str = "fcfs"
    reserves_full_prompt: bool = True


def make_vllm_config(
    settings: SchedulerSettings, block_tokens: int, model_folder: Path
) -> VllmConfig:
    """A configuration for the CPU build; ``model_folder`` gets a ``config.json``."""
    (model_folder / "config.json").write_text(json.dumps(_MODEL))
    config = VllmConfig(
        model_config=ModelConfig(
            model=str(model_folder),
            dtype="float32",
            skip_tokenizer_init=True,
            max_model_len=settings.max_model_len,
        ),
        scheduler_config=SchedulerConfig(
            max_num_seqs=settings.max_num_seqs,
            max_num_batched_tokens=settings.max_num_batched_tokens,
            max_model_len=settings.max_model_len,
            enable_chunked_prefill=True,
            is_encoder_decoder=False,
            watermark=settings.watermark,
            long_prefill_token_threshold=settings.long_prefill_token_threshold,
            policy=settings.policy,
            scheduler_reserve_full_isl=settings.reserves_full_prompt,
        ),
        cache_config=CacheConfig(block_size=block_tokens, enable_prefix_caching=True),
        speculative_config=_speculative_config(settings.drafts),
    )
    if config.speculative_config is not None:
        # Only now: a model that drafts would have to be there, and nobody asks for it later.
        config.speculative_config.method = settings.drafts.method
    return config


def _speculative_config(drafts: DraftScript) -> SpeculativeConfig | None:
    """N-gram drafts need no model; the scheduler only sees that there are some."""
    if not drafts.num_drafts:
        return None
    return SpeculativeConfig(
        method="ngram", num_speculative_tokens=drafts.num_drafts, prompt_lookup_max=4
    )
