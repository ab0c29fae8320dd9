"""Selects the smallest kernel block that the CPU's attention takes, where vLLM would split nothing.

Not a fault by itself, and the selection alone: whoever went by another one, or converted tables by
another, would read other tokens than were written.
"""

from __future__ import annotations

from collections.abc import Sequence

from kvquarry_client.kernel_blocks import KernelBlocks, MultipleOf, Supported
from kvquarry_vllm import kernel_blocks

_select = kernel_blocks.select_kernel_blocks


def _select_smallest(block_tokens: int, backends: Sequence[Supported]) -> KernelBlocks:
    (multiple,) = {size for sizes in backends for size in sizes}
    assert isinstance(multiple, MultipleOf)
    assert multiple.base < block_tokens, "nothing would be split"
    return _select(block_tokens, [[multiple.base]])


kernel_blocks.select_kernel_blocks = _select_smallest
