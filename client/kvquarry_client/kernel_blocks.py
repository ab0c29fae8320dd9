"""Kernel blocks: what an attention kernel addresses, where that is less than a block.

The block a pool hands out and the block a kernel reads differ by a whole ratio ``k``; kernel block
``j`` of block ``b`` is ``b * k + j`` (vllm-project/vllm#24486), which is why attention blocks are
never padded. The kernel size is chosen once per group and the block table converted once.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch


class NoCommonKernelBlock(ValueError):
    """No kernel block size suits all backends of a group; the message lists what each takes."""


@dataclass(frozen=True, slots=True)
class MultipleOf:
    """A backend that takes any multiple of ``base`` tokens."""

    base: int


#: Kernel block sizes one backend takes, in tokens.
Supported = Sequence[int | MultipleOf]


def select_kernel_block_tokens(block_tokens: int, backends: Sequence[Supported]) -> int:
    """Tokens per kernel block: the largest that divides a block and suits all backends.

    The block itself where all backends take it. Otherwise some backend takes whole sizes only, so
    one of those is the answer.

    Args:
        block_tokens: Tokens per block.
        backends: For each attention backend of the group, the sizes it takes.

    Raises:
        NoCommonKernelBlock: There is none.
    """
    whole = {size for sizes in backends for size in sizes if isinstance(size, int)}
    candidates = sorted((size for size in whole if block_tokens % size == 0), reverse=True)
    for tokens in (block_tokens, *candidates):
        if all(_takes(sizes, tokens) for sizes in backends):
            return tokens
    raise NoCommonKernelBlock(
        f"blocks of {block_tokens} tokens cannot be split for all backends, which take "
        + "; ".join(str(list(sizes)) for sizes in backends)
    )


def kernel_block_table(block_table: torch.Tensor, kernel_blocks_per_block: int) -> torch.Tensor:
    """A table of block ids as a table of kernel block ids.

    Args:
        block_table: Integers of shape ``[..., num_blocks]``.
        kernel_blocks_per_block: The ratio ``k``.

    Returns:
        Integers of shape ``[..., num_blocks * k]``: block ``b`` becomes ``b * k .. b * k + k - 1``.
    """
    if kernel_blocks_per_block == 1:
        return block_table
    within = torch.arange(
        kernel_blocks_per_block, dtype=block_table.dtype, device=block_table.device
    )
    return (block_table.unsqueeze(-1) * kernel_blocks_per_block + within).flatten(-2)


def _takes(sizes: Supported, tokens: int) -> bool:
    return any(
        tokens % size.base == 0 if isinstance(size, MultipleOf) else tokens == size
        for size in sizes
    )
