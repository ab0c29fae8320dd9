"""The pool that stock vLLM makes: blocks of one byte size for every kind of cache."""

from collections.abc import Sequence
from dataclasses import replace

from kvquarry_core.plan import GroupKind, GroupSpec

#: Attention blocks are a multiple of what its kernels address.
_KERNEL_TOKENS = 16


def uniform_groups(groups: Sequence[GroupSpec]) -> tuple[GroupSpec, ...]:
    """Groups with the attention block inflated to a state, and states padded to that block.

    The classes that a plan makes of them have one block a slab, so that states and pages share one
    pool and one order of eviction. Source: vLLM's ``Platform._align_hybrid_block_size``.
    """
    block_tokens = uniform_block_tokens(groups)
    inflated = [
        group if _is_state(group) else _with_block_tokens(group, block_tokens) for group in groups
    ]
    page_bytes = max(group.page_bytes for group in inflated)
    return tuple(
        replace(group, block_tokens=block_tokens, page_bytes=page_bytes) for group in inflated
    )


def uniform_block_tokens(groups: Sequence[GroupSpec]) -> int:
    """The block size that stock vLLM picks: the least multiple that holds the largest state."""
    state_bytes = max((group.page_bytes for group in groups if _is_state(group)), default=0)
    attention = [group for group in groups if not _is_state(group)]
    token_bytes = min(group.page_bytes // group.block_tokens for group in attention)
    unit = max(_KERNEL_TOKENS, *(group.block_tokens for group in attention))
    return unit * max(-(-state_bytes // (token_bytes * unit)), 1)


def _with_block_tokens(group: GroupSpec, block_tokens: int) -> GroupSpec:
    page_bytes = group.page_bytes * block_tokens // group.block_tokens
    return replace(group, block_tokens=block_tokens, page_bytes=page_bytes)


def _is_state(group: GroupSpec) -> bool:
    return group.kind is GroupKind.RECURRENT_STATE
