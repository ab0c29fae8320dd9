"""Which of a request's full blocks deserve a hash: those that a later request would read.

A pool's :class:`~kvquarry_core.retention.Retention` says at which lengths later requests may
resume. Full attention reads everything then, a state one row, a sliding window what it
reaches. Local chunks are kept whole, as in vLLM.
"""

from collections.abc import Sequence

from kvquarry_core.checkpoints import Checkpoints
from kvquarry_core.group_rules import SlidingWindow
from kvquarry_core.plan import GroupKind, GroupSpec
from kvquarry_core.retention import Landmarks


def worth_keeping(
    spec: GroupSpec, positions: range, checkpoints: Checkpoints, landmarks: Landmarks
) -> Sequence[int]:
    """Those of some positions that are worth a hash.

    Args:
        spec: The kind, one that may be hit.
        positions: Full blocks.
        checkpoints: Where later requests may resume.
        landmarks: Of the request, aligned.
    """
    if spec.kind is GroupKind.SLIDING_WINDOW:
        return _within_reach(SlidingWindow(spec), positions, checkpoints, landmarks)
    if spec.kind is not GroupKind.RECURRENT_STATE:
        return positions
    return _states(spec.block_tokens, positions, checkpoints, landmarks)


def _states(
    block_tokens: int, positions: range, checkpoints: Checkpoints, landmarks: Landmarks
) -> Sequence[int]:
    """Positions whose state is kept: the last before the length."""
    first, end = positions.start + 1, positions.stop + 1
    lengths = range(first * block_tokens, end * block_tokens, block_tokens)
    kept = checkpoints.retention.kept(lengths, landmarks)
    return positions if kept is lengths else [length // block_tokens - 1 for length in kept]


def _within_reach(
    window: SlidingWindow, positions: range, checkpoints: Checkpoints, landmarks: Landmarks
) -> list[int]:
    """Positions that are read at one of the lengths kept; some of these are still to come.

    A window that ends at the last whole alignment unit begins up to one unit earlier than one that
    ends with the request: keeping exactly one window would keep nothing that can be hit.
    """
    kept: list[int] = []
    least = (positions.start + 1) * window.block_tokens
    most = window.last_tokens(positions.stop - 1)
    done = positions.start
    for num_tokens in checkpoints.within(least, most, landmarks):
        first = max(done, window.first_position(num_tokens))
        end = min(num_tokens // window.block_tokens, positions.stop)
        kept += range(first, end)
        done = max(done, end)
    return kept
