"""vLLM's layers to groups, and groups to what the pool must know of them.

vLLM's own grouping is kept (layers of one format, in groups of equal length); what is left out is
the step before it, which would blow attention blocks up until their page is as large as a state.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from vllm.v1.kv_cache_interface import (
    ChunkedLocalAttentionSpec,
    CircularBufferSpec,
    CrossAttentionSpec,
    FullAttentionSpec,
    KVCacheGroupSpec,
    KVCacheSpec,
    MambaSpec,
    SlidingWindowSpec,
)

from kvquarry_core.plan import GroupKind, GroupSpec

Specs = dict[str, KVCacheSpec]
Grouping = Callable[[Specs], list[KVCacheGroupSpec]]

_ATTENTION_ALIGNMENT_BYTES = 16
#: Kernels are compiled for strides of whole multiples of this many elements, as stock's are.
_STATE_ALIGNMENT_ELEMENTS = 16

_KINDS: dict[type[KVCacheSpec], GroupKind] = {
    FullAttentionSpec: GroupKind.FULL_ATTENTION,
    SlidingWindowSpec: GroupKind.SLIDING_WINDOW,
    ChunkedLocalAttentionSpec: GroupKind.CHUNKED_LOCAL,
    CrossAttentionSpec: GroupKind.CROSS_ATTENTION,
    CircularBufferSpec: GroupKind.SCRATCH,
}


def mixed_groups(
    specs: Mapping[str, KVCacheSpec], stock_grouping: Grouping
) -> list[KVCacheGroupSpec]:
    """The groups of a model in scope, each layer with its own page size.

    Args:
        specs: The cache spec of each layer, by the layer's name.
        stock_grouping: vLLM's grouping for specs of one page size; it never looks at the size.
    """
    return stock_grouping({name: _without_checkpoints(spec) for name, spec in specs.items()})


def group_specs(groups: Sequence[KVCacheGroupSpec]) -> tuple[GroupSpec, ...]:
    """What the pool must know of vLLM's groups, in their order."""
    return tuple(_group_spec(group) for group in groups)


def _without_checkpoints(spec: KVCacheSpec) -> KVCacheSpec:
    """A state without blocks for checkpoints within a chunk.

    Such a checkpoint would be one more state per request that the pool knows nothing of. Scheduler
    and workers both read this number from the group, so that both see 0 and split the chunk.
    """
    if isinstance(spec, MambaSpec):
        return replace(spec, num_prefill_checkpoint_blocks=0)
    return spec


def _group_spec(group: KVCacheGroupSpec) -> GroupSpec:
    spec = group.kv_cache_spec
    if isinstance(spec, MambaSpec):
        return GroupSpec(
            kind=GroupKind.RECURRENT_STATE,
            block_tokens=spec.block_size,
            page_bytes=spec.page_size_bytes,
            num_layers=len(group.layer_names),
            num_speculative_blocks=spec.num_speculative_blocks,
            alignment_bytes=_STATE_ALIGNMENT_ELEMENTS * max(d.itemsize for d in spec.dtypes),
        )
    return GroupSpec(
        kind=_kind_of(spec),
        block_tokens=spec.block_size,
        page_bytes=spec.page_size_bytes,
        num_layers=len(group.layer_names),
        alignment_bytes=_ATTENTION_ALIGNMENT_BYTES,
        window_tokens=_window_tokens(spec),
    )


def _kind_of(spec: KVCacheSpec) -> GroupKind:
    """Subclasses keep their parent's rules here: which of them are in scope is another question."""
    for parent, kind in _KINDS.items():
        if isinstance(spec, parent):
            return kind
    raise AssertionError(f"{type(spec).__name__} is out of scope")


def _window_tokens(spec: KVCacheSpec) -> int:
    if isinstance(spec, SlidingWindowSpec):
        return spec.sliding_window
    return spec.attention_chunk_size if isinstance(spec, ChunkedLocalAttentionSpec) else 0
