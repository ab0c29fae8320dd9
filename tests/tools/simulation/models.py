"""Made-up models, small enough to count by hand."""

from kvquarry_core.plan import GroupKind, GroupSpec


def attention(block_tokens: int = 512, *, token_bytes: int = 1) -> GroupSpec:
    """One layer of attention."""
    return GroupSpec(GroupKind.FULL_ATTENTION, block_tokens, block_tokens * token_bytes, 1)


def states(block_tokens: int = 512, *, page_bytes: int = 2048) -> GroupSpec:
    """One layer of states; a state is as large as four blocks of 512 tokens."""
    return GroupSpec(GroupKind.RECURRENT_STATE, block_tokens, page_bytes, 1)


def window(window_tokens: int, block_tokens: int = 512) -> GroupSpec:
    """One layer of a sliding window."""
    return GroupSpec(
        GroupKind.SLIDING_WINDOW, block_tokens, block_tokens, 1, window_tokens=window_tokens
    )


def chunks(chunk_tokens: int, block_tokens: int = 512) -> GroupSpec:
    """One layer of local chunks."""
    return GroupSpec(
        GroupKind.CHUNKED_LOCAL, block_tokens, block_tokens, 1, window_tokens=chunk_tokens
    )
