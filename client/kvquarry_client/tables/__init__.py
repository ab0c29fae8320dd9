"""Block tables: which of a request's blocks stands at which position; one module a sort."""

from collections.abc import Sequence

from kvquarry_client.tables.attention import AttentionTable, WindowTable
from kvquarry_client.tables.fixed import FixedTable
from kvquarry_client.tables.states import StateTable
from kvquarry_client.tables.table import (
    ANY_NUMBER,
    NOTHING_RETIRED,
    BlockTable,
    Columns,
    Retired,
)
from kvquarry_core.group_rules import window_of
from kvquarry_core.ids import BlockId
from kvquarry_core.plan import GroupKind, GroupSpec

__all__ = [
    "ANY_NUMBER",
    "NOTHING_RETIRED",
    "AttentionTable",
    "BlockTable",
    "Columns",
    "FixedTable",
    "Retired",
    "StateTable",
    "WindowTable",
    "make_table",
]


def make_table(
    spec: GroupSpec,
    hit_blocks: Sequence[Sequence[BlockId]],
    hit_tokens: int,
    encoder_tokens: int = 0,
) -> AttentionTable | WindowTable | StateTable | FixedTable:
    """A new request's table, with the blocks its hit touched in place."""
    hit_rows = hit_tokens // spec.block_tokens
    window = window_of(spec)
    if window is not None:
        return WindowTable(spec, window, hit_blocks, hit_rows)
    if spec.kind is GroupKind.FULL_ATTENTION:
        return AttentionTable(spec, hit_blocks)
    if spec.kind is GroupKind.RECURRENT_STATE:
        return StateTable(spec, hit_blocks, hit_rows)
    num_rows = -(-encoder_tokens // spec.block_tokens)
    return FixedTable(len(hit_blocks), 1 if spec.kind is GroupKind.SCRATCH else num_rows)
