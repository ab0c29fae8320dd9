"""vLLM's attention groups go by the kernel blocks that were selected for them.

An attention group is those layers of a KV cache group that share a backend; both generations of
model runners have it convert block tables at every step. A group keeps what was selected
(:mod:`kvquarry_vllm.kernel_blocks`); one of a stock pool keeps nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

from kvquarry_client.kernel_blocks import KernelBlocks

if TYPE_CHECKING:
    # Front ends load this module, and none of the workers' code.
    import torch
    from vllm.v1.worker.utils import AttentionGroup

_KEPT = "kvquarry_kernel_blocks"

#: Those of the group whose metadata builders are being made; None at all other times.
_in_hand: ContextVar[KernelBlocks | None] = ContextVar("kernel_blocks_in_hand", default=None)


def keep_selected(layers: AttentionGroup, blocks: KernelBlocks | None) -> None:
    """From now on these layers go by this selection; None for states, which are not split."""
    setattr(layers, _KEPT, blocks)


def selected_for(layers: AttentionGroup) -> KernelBlocks | None:
    """What was selected for layers of a pool of ours; None for all others, and for states."""
    kept: KernelBlocks | None = getattr(layers, _KEPT, None)
    return kept


@contextmanager
def answering_for(layers: AttentionGroup) -> Iterator[None]:
    """While this lasts, :func:`selected_tokens` says what was selected for these layers.

    vLLM asks for a size once more for each backend, where it no longer knows the group.
    """
    token = _in_hand.set(selected_for(layers))
    try:
        yield
    finally:
        _in_hand.reset(token)


def selected_tokens() -> int | None:
    """Tokens of a kernel block of the layers in hand; None if they are none of ours."""
    blocks = _in_hand.get()
    return None if blocks is None else blocks.kernel_block_tokens


def kernel_table(
    layers: AttentionGroup, blocks: KernelBlocks, block_table: torch.Tensor, microbatch: int
) -> torch.Tensor:
    """A step's block table as the kernels of these layers want it.

    Args:
        layers: Whose memory is used for it: captured graphs know the address.
        blocks: What was selected for them.
        block_table: Of whole blocks, shape ``[num_requests, num_blocks]``.
        microbatch: Which of vLLM's concurrent parts of a step it is for.

    Returns:
        Shape ``[num_requests, num_blocks * k]``; the table itself where blocks are whole.
    """
    assert not layers.kernel_block_stride, "compressed attention, which packs blocks, has no pool"
    if blocks.per_block == 1:
        return block_table
    assert layers.kernel_block_table is not None
    num_requests, num_blocks = block_table.shape
    out = layers.kernel_block_table[microbatch, :num_requests, : num_blocks * blocks.per_block]
    return blocks.table(block_table, within=layers.kernel_block_offsets, out=out)
