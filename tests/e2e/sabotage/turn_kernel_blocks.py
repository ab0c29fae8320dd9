"""Splits blocks for kernels, and names the kernel blocks of each from its end to its start."""

from __future__ import annotations

from typing import Any

from kvquarry_client.kernel_blocks import KernelBlocks
from tests.e2e.sabotage import split_kernel_blocks

assert split_kernel_blocks, "imported for what it plants"

_table = KernelBlocks.table


def _turned(blocks: Any, block_table: Any, *, within: Any, out: Any) -> Any:
    return _table(blocks, block_table, within=within.flip(0), out=out)


KernelBlocks.table = _turned
