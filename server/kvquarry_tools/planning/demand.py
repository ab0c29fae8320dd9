"""Blocks that requests and cached prefixes take, by the rules that admission goes by."""

from collections.abc import Sequence

from kvquarry_core.group_rules import rule_for
from kvquarry_core.plan import GroupKind, GroupSpec

#: Tokens on their way at once, which windows keep besides: what vLLM batches on large GPUs.
IN_FLIGHT_TOKENS = 8192
#: At a boundary a request holds the state it leaves and the one it goes on with; with a step in
#: flight, the one before as well.
_MORE_STATES_AT_A_BOUNDARY = 2


def resident(groups: Sequence[GroupSpec], num_tokens: int) -> list[int]:
    """Blocks by group that a request of ``num_tokens`` holds while it decodes."""
    return [rule_for(group).num_held_blocks(num_tokens - 1, num_tokens) for group in groups]


def at_most(groups: Sequence[GroupSpec], num_tokens: int) -> list[int]:
    """The most blocks by group that a request of ``num_tokens`` ever holds, as at start-up."""
    return [
        rule_for(group).most_new_blocks(0, num_tokens, IN_FLIGHT_TOKENS)
        + (_MORE_STATES_AT_A_BOUNDARY if group.kind is GroupKind.RECURRENT_STATE else 0)
        for group in groups
    ]


def cached(groups: Sequence[GroupSpec], num_checkpoints: int, checkpoint_tokens: int) -> list[int]:
    """Blocks by group of cached prefixes: so many checkpoints, and the tokens before each.

    Attention keeps every block; a checkpoint is one state in each of its groups.
    """
    num_tokens = num_checkpoints * checkpoint_tokens
    return [
        num_checkpoints
        if group.kind is GroupKind.RECURRENT_STATE
        else -(-num_tokens // group.block_tokens)
        for group in groups
    ]
