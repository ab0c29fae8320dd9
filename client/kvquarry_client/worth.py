"""Which of a request's full blocks deserve a hash: those that a later request would read.

A pool's :class:`~kvquarry_core.retention.Retention` says at which lengths later requests are
expected to resume. Full attention reads everything then, a state one row, a sliding window what it
reaches. Local chunks are kept whole, as in vLLM.
"""

from collections.abc import Iterable, Sequence

from kvquarry_core.group_rules import SlidingWindow
from kvquarry_core.plan import GroupKind, GroupSpec
from kvquarry_core.retention import Retention


def worth_keeping(
    spec: GroupSpec, positions: range, retention: Retention, boundaries: Iterable[int]
) -> Sequence[int]:
    """Those of some positions that are worth a hash.

    Args:
        spec: The kind, one that may be hit.
        positions: Full blocks.
        retention: Where later requests may resume.
        boundaries: Proven places, see :meth:`Retention.keeps`.
    """
    if spec.kind is GroupKind.SLIDING_WINDOW:
        return _within_reach(SlidingWindow(spec), positions, retention, boundaries)
    if spec.kind is not GroupKind.RECURRENT_STATE:
        return positions
    return _states(spec.block_tokens, positions, retention, boundaries)


def _states(
    block_tokens: int, positions: range, retention: Retention, boundaries: Iterable[int]
) -> list[int]:
    """Positions whose state is kept; :meth:`Retention.keeps` has the last word on each.

    Without an interval only the boundaries are asked about: a chunk has few of them and hundreds of
    positions.
    """
    boundaries = list(boundaries)
    asked: Iterable[int] = positions
    if retention.interval_tokens == 0:
        align = retention.alignment_tokens
        ends = {boundary // align * align // block_tokens - 1 for boundary in boundaries}
        asked = sorted(end for end in ends if end in positions)
    return [
        position for position in asked if retention.keeps((position + 1) * block_tokens, boundaries)
    ]


def _within_reach(
    window: SlidingWindow, positions: range, retention: Retention, boundaries: Iterable[int]
) -> list[int]:
    """Positions that are read at one of the lengths kept; some of these are still to come.

    A window that ends at the last whole alignment unit begins up to one unit earlier than one that
    ends with the request: keeping exactly one window would keep nothing that can be hit.
    """
    kept: list[int] = []
    least = max((positions.start + 1 - window.num_dropped) * window.block_tokens, 1)
    most = window.last_tokens(positions.stop - 1)
    done = positions.start
    for num_tokens in retention.lengths_kept(least, most, boundaries):
        first = max(done, window.first_position(num_tokens))
        end = min(num_tokens // window.block_tokens + window.num_dropped, positions.stop)
        kept += range(first, end)
        done = max(done, end)
    return kept
