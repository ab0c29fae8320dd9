"""Which models get a mixed-size pool. All others keep stock vLLM's, with one line that says why.

In scope is attention: full, sliding windows, local chunks, across to an encoder, beside recurrent
states in align mode or without them. Latent attention (MLA) is full attention with one vector per
token, and an fp8 cache has smaller pages; both are only bytes to a pool. The answer depends on the
layers' cache specs and the configuration only, so workers and scheduler reach the same one.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from vllm.v1.kv_cache_interface import (
    AttentionSpec,
    ChunkedLocalAttentionSpec,
    CrossAttentionSpec,
    FullAttentionSpec,
    KVCacheSpec,
    KVQuantMode,
    MambaSpec,
    MLAAttentionSpec,
    SlidingWindowSpec,
)

from kvquarry_vllm.drafts import reason_of_drafts

#: One plain array of values; all other modes pack scales or several layouts into a page.
_PLAIN_MODES = (KVQuantMode.NONE, KVQuantMode.FP8_PER_TENSOR)
_ATTENTION = (
    FullAttentionSpec,
    MLAAttentionSpec,
    SlidingWindowSpec,
    ChunkedLocalAttentionSpec,
    CrossAttentionSpec,
)


def reason_for_stock(vllm_config: Any, specs: Mapping[str, KVCacheSpec]) -> str | None:
    """Why these layers are left to stock vLLM, or None when they are ours.

    Args:
        vllm_config: vLLM's configuration.
        specs: The cache spec of each layer, by the layer's name.
    """
    if not specs:
        return "the model keeps no KV cache"
    if getattr(vllm_config.model_config, "supports_kv_cache_grouping", False):
        return "the model groups its own layers"
    reasons = (_reason_of_layer(spec) for spec in specs.values())
    return (
        reason_of_drafts(vllm_config, specs)
        or next(filter(None, reasons), None)
        or _reason_of_mixture(specs.values())
        or _reason_of_one_manager(vllm_config, specs.values())
    )


def is_mixed(specs: Iterable[KVCacheSpec]) -> bool:
    """Whether attention pages and states share the pool."""
    return any(isinstance(spec, MambaSpec) for spec in specs)


def _reason_of_layer(spec: KVCacheSpec) -> str | None:
    # Subclasses follow rules of their own, so only these classes themselves are accepted.
    if type(spec) is MambaSpec:
        if spec.mamba_cache_mode != "align":
            return f"states are kept in mode {spec.mamba_cache_mode!r}, not 'align'"
        return "padded states are not supported" if spec.page_size_padded else None
    if not isinstance(spec, AttentionSpec) or type(spec) not in _ATTENTION:
        return f"{type(spec).__name__} layers are not supported yet"
    return _reason_of_kind(spec) or _reason_of_format(spec)


def _reason_of_kind(spec: AttentionSpec) -> str | None:
    if isinstance(spec, FullAttentionSpec):
        if spec.sliding_window is not None or spec.attention_chunk_size is not None:
            return "windows whose layers keep all blocks are not supported yet"
        if spec.non_causal:
            return "non-causal attention is not supported yet"
    if isinstance(spec, SlidingWindowSpec) and spec.extra_retained_tokens:
        return "windows that retain more than they read are not supported yet"
    return None


def _reason_of_format(spec: AttentionSpec) -> str | None:
    if spec.kv_quant_mode not in _PLAIN_MODES:
        return f"the packed KV cache format {spec.kv_quant_mode.name} is not supported yet"
    if spec.tokens_per_state != 1:
        return "compressed attention is not supported yet"
    if spec.page_size_padded or spec.page_size_bytes % spec.get_block_stride_alignment():
        return "padded attention pages are not supported yet"
    return None


def _reason_of_mixture(specs: Iterable[KVCacheSpec]) -> str | None:
    attention = {spec for spec in specs if isinstance(spec, AttentionSpec)}
    if not attention:
        return "a model without attention has one page size as it is"
    all_full = all(isinstance(spec, FullAttentionSpec) for spec in attention)
    if len(attention) > 1 and all_full and not is_mixed(specs):
        return "full attention of several formats and nothing else shares one block table"
    precisions = {(s.page_size_bytes, s.dtype, s.kv_quant_mode) for s in attention}
    if len(precisions) > len({spec.page_size_bytes for spec in attention}):
        return "blocks of one size hold several precisions, which zeroing cannot tell apart"
    return None


def _reason_of_one_manager(vllm_config: Any, specs: Iterable[KVCacheSpec]) -> str | None:
    """With states the setting is refused instead: they cannot do without groups of their own."""
    is_off = vllm_config.scheduler_config.disable_hybrid_kv_cache_manager is True
    if is_off and len({type(spec) for spec in specs}) > 1:
        return "--disable-hybrid-kv-cache-manager makes all layers keep all blocks"
    return None
