"""Speculative decoding by layers that keep a KV cache of their own: EAGLE, MTP, a draft model.

A draft model keeps of a token what depends on the tokens up to it, like any model. EAGLE's and
MTP's layers read the target's hidden states beside the *next* token::

    token                 a   b   c   d
    target keeps          a   ab  abc abcd
    EAGLE, MTP keep       ab  abc abcd ...

so the last block that a prompt has in common with another may hold the other's continuation. The
target verifies what is drafted, and outputs are right nonetheless; but drafts would be accepted
less often. Stock vLLM wants to see one block more than it uses. Here such a block is named by the
hash one unit beyond its end, and is found by those alone who go on as its writer did.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from vllm.v1.kv_cache_interface import KVCacheGroupSpec, KVCacheSpec

from kvquarry_core.plan import GroupSpec
from kvquarry_vllm.grouping import group_specs

#: Those whose layers write one slot per token, and write it again once drafts were rejected.
_METHODS = ("draft_model", "eagle", "eagle3", "mtp")


def has_draft_layers(vllm_config: Any) -> bool:
    """Whether drafts come from layers that keep a cache of their own."""
    speculative = vllm_config.speculative_config
    return speculative is not None and speculative.uses_draft_kv_cache()


def reason_of_drafts(vllm_config: Any, specs: Mapping[str, KVCacheSpec]) -> str | None:
    """Why drafts that layers of their own make leave a model to stock vLLM, or None.

    Args:
        vllm_config: vLLM's configuration.
        specs: The cache spec of each layer, by the layer's name; the drafts' layers included.
    """
    if not has_draft_layers(vllm_config):
        return None
    speculative = vllm_config.speculative_config
    if speculative.method not in _METHODS:
        return f"speculative decoding by {speculative.method} is not supported yet"
    if speculative.parallel_drafting:
        return "drafting several tokens at once is not supported yet"
    # vLLM 0.33: a block's hash names the token after it too, which is known later than the block.
    if getattr(vllm_config, "num_hash_lookahead_tokens", 0):
        return "block hashes that look ahead are not supported yet"
    if speculative.method == "draft_model":
        return _reason_of_draft_model(specs)
    return _reason_of_modules(vllm_config) if speculative.method == "mtp" else None


def _reason_of_draft_model(specs: Mapping[str, KVCacheSpec]) -> str | None:
    """vLLM's runner hands a draft model the first group's block table, whichever its own is."""
    if len(set(specs.values())) > 1:
        return "a draft model would write its cache into the blocks of another group"
    return None


def _reason_of_modules(vllm_config: Any) -> str | None:
    speculative = vllm_config.speculative_config
    if vllm_config.num_prefill_lookahead_tokens > 1:
        return "MTP modules in a chain are not supported yet: they write slots of a prompt twice"
    if speculative.use_gemma4_mtp() or speculative.use_step3p5_mtp():
        return "MTP modules that read the caches of several groups are not supported yet"
    return None


def pool_groups(vllm_config: Any, groups: Sequence[KVCacheGroupSpec]) -> tuple[GroupSpec, ...]:
    """What the pool must know of vLLM's groups, in their order, the margin of drafts included.

    Which layers are the drafts' vLLM cannot always tell, and they may share a group with others. It
    costs nothing to treat all attention alike: what ends a block earlier in one group can be used
    by none beyond that.
    """
    specs = group_specs(groups)
    speculative = vllm_config.speculative_config
    if speculative is None or not speculative.use_eagle_block_drop():
        return specs
    return tuple(replace(spec, is_draft=spec.may_be_draft) for spec in specs)
