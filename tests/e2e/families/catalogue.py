"""The families that are run: a tiny configuration of each, and the settings that both sides get.

Each side has its own best settings: stock is given the block size it would raise the user's to, and
kvquarry the user's. What a family's kernels ask for beyond that is given to both.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

_VOCABULARY: Final = 512
COMMON: Final[Mapping[str, Any]] = {
    "vocab_size": _VOCABULARY,
    "max_position_embeddings": 4096,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
}


@dataclass(frozen=True)
class Family:
    """One family of models.

    Attributes:
        model_type: As transformers calls it.
        config: Laid over that configuration's defaults.
        tight_pool_bytes: A pool in which memory changes hands.
        block_tokens: What kvquarry gets as ``--block-size``.
        stock_block_tokens: What stock vLLM raises that to. It is given at once, because the CPU
            build forgets what it has raised. Windows of a smaller page get longer blocks yet.
        num_sizes: Page sizes among its layers.
        drafts_by: How one more layer drafts, as vLLM calls it; empty for no drafts.
        loudness: How much its layers add to what the embedding says. Where they are quiet, a layer
            of another model guesses right now and then.
        options: What both engines get beside the block size.
    """

    model_type: str
    config: Mapping[str, Any]
    tight_pool_bytes: int
    block_tokens: int = 64
    stock_block_tokens: int = 64
    num_sizes: int = 1
    drafts_by: str = ""
    loudness: float = 1.0
    options: Mapping[str, Any] = field(default_factory=dict)


#: The CPU build's kernels for short convolutions and Mamba round by what else is in a batch, stock
#: against stock: only one request at a time can be compared bit for bit.
_ALONE: Final = {"mamba_cache_mode": "align", "max_num_seqs": 1}
#: Its Mamba kernels take a chunk only if it fits into one block.
_ALONE_IN_CHUNKS: Final = {**_ALONE, "max_num_batched_tokens": 64}

#: The size of most of them.
_SMALL: Final[Mapping[str, Any]] = {
    "hidden_size": 128,
    "intermediate_size": 256,
    "num_hidden_layers": 6,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
}
_WINDOWED: Final = {**_SMALL, "head_dim": 32}

LFM2: Final = Family(
    "lfm2",
    {
        **_SMALL,
        "layer_types": ["conv", "conv", "full_attention", "conv", "conv", "full_attention"],
        "block_auto_adjust_ff_dim": False,
        "conv_dim": 128,
        "block_dim": 128,
        "block_ff_dim": 256,
        "tie_word_embeddings": False,
    },
    num_sizes=2,
    tight_pool_bytes=1 << 20,
    options=_ALONE,
)

ZAMBA2: Final = Family(
    "zamba2",
    {
        "hidden_size": 128,
        "intermediate_size": 256,
        "num_hidden_layers": 6,
        "num_attention_heads": 8,
        "layers_block_type": ["mamba", "mamba", "hybrid", "mamba", "mamba", "hybrid"],
        "mamba_d_state": 64,
        "n_mamba_heads": 4,
        "mamba_ngroups": 1,
        "chunk_size": 64,
        "use_mem_rope": True,
    },
    stock_block_tokens=128,
    num_sizes=2,
    tight_pool_bytes=10 << 20,
    options=_ALONE_IN_CHUNKS,
)

GRANITE: Final = Family(
    "granitemoehybrid",
    {
        **_SMALL,
        "intermediate_size": 64,
        "shared_intermediate_size": 128,
        "layer_types": ["mamba", "mamba", "attention", "mamba", "mamba", "attention"],
        "num_local_experts": 4,
        "num_experts_per_tok": 2,
        "mamba_n_heads": 4,
        "mamba_d_state": 64,
        "mamba_d_head": 64,
        "mamba_chunk_size": 64,
    },
    stock_block_tokens=384,
    num_sizes=2,
    tight_pool_bytes=5 << 20,
    options=_ALONE_IN_CHUNKS,
)

_PATTERN: Final = ["sliding_attention", "sliding_attention", "full_attention"]

GEMMA3: Final = Family(
    "gemma3_text",
    {
        **_WINDOWED,
        "sliding_window": 128,
        "layer_types": _PATTERN * 2,
        "query_pre_attn_scalar": 32,
    },
    tight_pool_bytes=3 << 20,
)

#: The layer that drafts, by how it does: EAGLE's pages are twice as large as the target's.
DRAFTERS: Final[Mapping[str, Family]] = {
    method: Family(
        "llama",
        {
            **_WINDOWED,
            "num_hidden_layers": 1,
            "num_key_value_heads": num_heads,
            "tie_word_embeddings": True,
        },
        tight_pool_bytes=0,
        loudness=loudness,
    )
    for method, num_heads, loudness in (("eagle", 4, 0.3), ("draft_model", 2, 0.1))
}

GEMMA3_EAGLE: Final = replace(
    GEMMA3,
    drafts_by="eagle",
    loudness=0.3,
    num_sizes=2,
    tight_pool_bytes=7 << 20,
    options={"max_model_len": 1280},
)

LLAMA_DRAFTED: Final = Family(
    "llama",
    {**_WINDOWED, "tie_word_embeddings": True},
    drafts_by="draft_model",
    loudness=0.1,
    tight_pool_bytes=4 << 20,
    options={"max_model_len": 1280},
)

GEMMA4: Final = Family(
    "gemma4_text",
    {
        **_WINDOWED,
        "sliding_window": 128,
        "layer_types": _PATTERN * 2,
        "global_head_dim": 64,
        "vocab_size_per_layer_input": 512,
        "hidden_size_per_layer_input": 32,
    },
    num_sizes=2,
    tight_pool_bytes=16 << 20,
    options={"dtype": "float32", "max_num_seqs": 4},
)

LLAMA4: Final = Family(
    "llama4_text",
    {
        **_WINDOWED,
        "intermediate_size_mlp": 256,
        "num_local_experts": 2,
        "moe_layers": [],
        "interleave_moe_layer_step": 0,
        "attention_chunk_size": 128,
        "no_rope_layers": [1, 1, 0] * 2,
    },
    tight_pool_bytes=3 << 20,
)

DEEPSEEK: Final = Family(
    "deepseek_v2",
    {
        **_SMALL,
        "num_hidden_layers": 4,
        "num_key_value_heads": 4,
        "kv_lora_rank": 512,
        "q_lora_rank": None,
        "qk_rope_head_dim": 64,
        "qk_nope_head_dim": 32,
        "v_head_dim": 32,
        "n_routed_experts": 4,
        "first_k_dense_replace": 4,
    },
    block_tokens=16,
    stock_block_tokens=16,
    tight_pool_bytes=24 << 20,
)

WHISPER: Final = Family(
    "whisper",
    {
        "d_model": 128,
        "encoder_layers": 2,
        "decoder_layers": 2,
        "encoder_attention_heads": 4,
        "decoder_attention_heads": 4,
        "encoder_ffn_dim": 256,
        "decoder_ffn_dim": 256,
        "max_source_positions": 100,
        "max_target_positions": 448,
        "decoder_start_token_id": 1,
        "begin_suppress_tokens": None,
    },
    tight_pool_bytes=3 << 20,
    options={
        "max_model_len": 448,
        "enable_prefix_caching": False,
        "skip_tokenizer_init": False,
    },
)

FAMILIES: Final[Mapping[str, Family]] = {
    "lfm2": LFM2,
    "zamba2": ZAMBA2,
    "granite": GRANITE,
    "gemma3": GEMMA3,
    "gemma3-eagle": GEMMA3_EAGLE,
    "llama-drafted": LLAMA_DRAFTED,
    "gemma4": GEMMA4,
    "llama4": LLAMA4,
    "deepseek": DEEPSEEK,
    "whisper": WHISPER,
}
