"""Which models get a mixed-size pool. All others keep stock vLLM's, with one line that says why.

In scope are full attention alone, all layers alike, and full attention beside recurrent states in
align mode. Latent attention (MLA) is full attention with one vector per token, and an fp8 cache has
smaller pages; both are only bytes to a pool. The answer depends on the layers' cache specs and the
configuration only, so workers and scheduler reach the same one.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from vllm.v1.kv_cache_interface import (
    FullAttentionSpec,
    KVCacheSpec,
    KVQuantMode,
    MambaSpec,
    MLAAttentionSpec,
)

#: One plain array of values; all other modes pack scales or several layouts into a page.
_PLAIN_MODES = (KVQuantMode.NONE, KVQuantMode.FP8_PER_TENSOR)
_FULL_ATTENTION = (FullAttentionSpec, MLAAttentionSpec)


def reason_for_stock(vllm_config: Any, specs: Mapping[str, KVCacheSpec]) -> str | None:
    """Why these layers are left to stock vLLM, or None when they are ours.

    Args:
        vllm_config: vLLM's configuration.
        specs: The cache spec of each layer, by the layer's name.
    """
    if not specs:
        return "the model keeps no KV cache"
    if _has_draft_layers(vllm_config):
        return "speculative decoding with draft layers is not supported yet"
    if getattr(vllm_config.model_config, "supports_kv_cache_grouping", False):
        return "the model groups its own layers"
    reasons = (_reason_of_layer(spec) for spec in specs.values())
    return next(filter(None, reasons), None) or _reason_of_mixture(specs.values())


def is_mixed(specs: Iterable[KVCacheSpec]) -> bool:
    """Whether attention pages and states share the pool."""
    return any(isinstance(spec, MambaSpec) for spec in specs)


def _has_draft_layers(vllm_config: Any) -> bool:
    speculative = vllm_config.speculative_config
    return speculative is not None and speculative.uses_draft_kv_cache()


def _reason_of_layer(spec: KVCacheSpec) -> str | None:
    # Subclasses follow rules of their own, so only these classes themselves are accepted.
    if type(spec) is MambaSpec:
        if spec.mamba_cache_mode != "align":
            return f"states are kept in mode {spec.mamba_cache_mode!r}, not 'align'"
        return "padded states are not supported" if spec.page_size_padded else None
    if type(spec) not in _FULL_ATTENTION:
        return f"{type(spec).__name__} layers are not supported yet"
    if spec.sliding_window is not None or spec.attention_chunk_size is not None:
        return "sliding-window and chunked layers are not supported yet"
    if spec.kv_quant_mode not in _PLAIN_MODES:
        return f"the packed KV cache format {spec.kv_quant_mode.name} is not supported yet"
    if spec.tokens_per_state != 1 or spec.non_causal:
        return "compressed and non-causal attention are not supported yet"
    if spec.page_size_padded or spec.page_size_bytes % spec.get_block_stride_alignment():
        return "padded attention pages are not supported yet"
    return None


def _reason_of_mixture(specs: Iterable[KVCacheSpec]) -> str | None:
    attention = {spec for spec in specs if isinstance(spec, FullAttentionSpec)}
    if not attention:
        return "a model without attention has one page size as it is"
    if len(attention) > 1 and not is_mixed(specs):
        return "attention layers of several formats are not supported yet"
    precisions = {(s.page_size_bytes, s.dtype, s.kv_quant_mode) for s in attention}
    if len(precisions) > len({spec.page_size_bytes for spec in attention}):
        return "blocks of one size hold several precisions, which zeroing cannot tell apart"
    return None
