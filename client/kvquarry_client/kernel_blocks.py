"""Kernel blocks: what an attention kernel addresses, where that is less than a block.

The block a pool hands out and the block a kernel reads differ by a whole ratio ``k``; kernel block
``j`` of block ``b`` is ``b * k + j`` (vllm-project/vllm#24486), which is why attention blocks are
never padded. The kernel size is chosen once per group, from what all its backends take, and a
:class:`KernelBlocks` is what everybody who needs it is handed.

Ranks that share a context deal a block's tokens out, so that a block covers more of the sequence
than one rank's memory holds of it. Two ranks, blocks of 4 tokens, 2 neighbouring tokens to a rank::

    token    0  1  2  3  4  5  6  7 | 8  9 ...
    rank 0   0  1  .  .  2  3  .  . | 0  1 ...     place in the rank's block
    rank 1   .  .  0  1  .  .  2  3 | .  . ...
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

#: The slot of a token that another rank holds.
NO_SLOT = -1


class NoCommonKernelBlock(ValueError):
    """No kernel block size suits all backends of a group; the message lists what each takes."""


@dataclass(frozen=True, slots=True)
class MultipleOf:
    """A backend that takes any multiple of ``base`` tokens."""

    base: int


#: Kernel block sizes one backend takes, in tokens.
Supported = Sequence[int | MultipleOf]


@dataclass(frozen=True, slots=True)
class KernelBlocks:
    """How a group's blocks look to its attention kernels.

    Attributes:
        block_tokens: Tokens of one block in one rank's memory.
        kernel_block_tokens: Tokens of one kernel block; divides ``block_tokens``.
        num_ranks: Context-parallel ranks that a block's tokens are dealt out to.
        interleave_tokens: Neighbouring tokens that are dealt to the same rank.
    """

    block_tokens: int
    kernel_block_tokens: int
    num_ranks: int = 1
    interleave_tokens: int = 1

    def __post_init__(self) -> None:
        """Refuse what does not divide."""
        if self.block_tokens % self.kernel_block_tokens:
            raise ValueError(
                f"kernel blocks of {self.kernel_block_tokens} tokens do not divide blocks of "
                f"{self.block_tokens}"
            )
        if self.block_tokens % self.interleave_tokens:
            raise ValueError(
                f"stretches of {self.interleave_tokens} tokens do not divide blocks of "
                f"{self.block_tokens}"
            )

    @property
    def per_block(self) -> int:
        """Kernel blocks in a block: the ratio ``k``."""
        return self.block_tokens // self.kernel_block_tokens

    @property
    def span_tokens(self) -> int:
        """Tokens of the sequence that one block covers, on all ranks together."""
        return self.block_tokens * self.num_ranks

    def num_columns(self, num_tokens: int) -> int:
        """Kernel block ids in the table of a request of ``num_tokens``."""
        return -(-num_tokens // self.span_tokens) * self.per_block

    def table(
        self,
        block_table: torch.Tensor,
        *,
        within: torch.Tensor | None = None,
        out: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """A table of block ids as a table of kernel block ids.

        One addition, on the device the table is on: a runner converts a table at every step.

        Args:
            block_table: Integers of shape ``[..., num_blocks]``.
            within: ``0 .. k - 1`` in the table's type, for callers that keep it.
            out: Where the answer goes, shape ``[..., num_blocks * k]``, for callers whose kernels
                were told its address. Left alone where ``k`` is 1.

        Returns:
            Integers of shape ``[..., num_blocks * k]``: block ``b`` becomes ``b * k .. b * k + k -
            1``. The table itself where ``k`` is 1.
        """
        k = self.per_block
        if k == 1:
            return block_table
        *rows, columns = block_table.shape
        if within is None:
            within = torch.arange(k, dtype=block_table.dtype, device=block_table.device)
        if out is None:
            out = block_table.new_empty((*rows, columns * k))
        torch.add(within, block_table.unsqueeze(-1), alpha=k, out=out.view(*rows, columns, k))
        return out

    def slots(
        self, blocks: torch.Tensor, positions: torch.Tensor, *, rank: int = 0
    ) -> torch.Tensor:
        """Where a rank keeps a request's tokens; splitting blocks for kernels moves none of them.

        Args:
            blocks: The request's block ids of this group, shape ``[num_blocks]``.
            positions: Tokens' positions in the sequence, any shape.
            rank: Whose memory is meant.

        Returns:
            Slots of the positions' shape: ``block * block_tokens + place``, or :data:`NO_SLOT`
            for a token that another rank holds.
        """
        within = positions % self.span_tokens
        stretch, place = within // self.interleave_tokens, within % self.interleave_tokens
        place = stretch // self.num_ranks * self.interleave_tokens + place
        ids = blocks.to(torch.int64)[positions // self.span_tokens]
        is_ours = stretch % self.num_ranks == rank
        return torch.where(is_ours, ids * self.block_tokens + place, NO_SLOT)

    def split(self, blocks: torch.Tensor) -> torch.Tensor:
        """One layer's ``[num_blocks, heads, tokens, content]`` as kernel blocks, in place.

        Raises:
            ValueError: Other bytes lie between the blocks, or heads outside the tokens, so that
                kernel blocks would not lie one stride apart.
        """
        if self.per_block == 1:
            return blocks
        num_blocks, heads, tokens, content = blocks.shape
        if tokens != self.block_tokens or blocks.stride(0) != heads * tokens * content:
            raise ValueError(
                f"blocks of shape {tuple(blocks.shape)} and strides {blocks.stride()} are not "
                f"dense blocks of {self.block_tokens} tokens, which kernel blocks of "
                f"{self.kernel_block_tokens} need"
            )
        tokens = self.kernel_block_tokens
        return blocks.as_strided(
            (num_blocks * self.per_block, heads, tokens, content),
            (heads * tokens * content, tokens * content, content, 1),
            int(blocks.storage_offset()),
        )


def select_kernel_blocks(
    block_tokens: int,
    backends: Sequence[Supported],
    *,
    num_ranks: int = 1,
    interleave_tokens: int = 1,
) -> KernelBlocks:
    """Choose a group's kernel block: the largest that divides a block and suits all backends.

    The block itself where all backends take it. Otherwise some backend takes whole sizes only, so
    one of those is the answer. Context-parallel ranks do not matter: each splits what it holds.

    Args:
        block_tokens: Tokens per block, on one rank.
        backends: For each attention backend of the group, the sizes it takes.
        num_ranks: See :class:`KernelBlocks`.
        interleave_tokens: See :class:`KernelBlocks`.

    Raises:
        NoCommonKernelBlock: There is none.
    """
    whole = {size for sizes in backends for size in sizes if isinstance(size, int)}
    candidates = sorted((size for size in whole if block_tokens % size == 0), reverse=True)
    for tokens in (block_tokens, *candidates):
        if all(_takes(sizes, tokens) for sizes in backends):
            return KernelBlocks(block_tokens, tokens, num_ranks, interleave_tokens)
    raise NoCommonKernelBlock(
        f"blocks of {block_tokens} tokens cannot be split for all backends, which take "
        + "; ".join(str(list(sizes)) for sizes in backends)
    )


def _takes(sizes: Supported, tokens: int) -> bool:
    return any(
        tokens % size.base == 0 if isinstance(size, MultipleOf) else tokens == size
        for size in sizes
    )
