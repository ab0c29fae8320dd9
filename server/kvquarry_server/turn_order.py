"""Whose turn it is: streams share one thread, and whoever has had least of it goes first.

This is start-time fair queueing (Goyal, Vin and Cheng 1996). A stream's *mark* is the time it has
used. What is served next is the lowest mark among those that wait; ``now`` is the mark that was
served last. A stream that comes back from a rest is marked ``now``: rest is not saved up, and it
goes before all who have had a turn since.

::

    flood   |##|##|##|  |##|##|  |##|          # one slice
    calm               ^|#|     ^|#|           ^ has something to say, and is next
"""

import heapq
from collections.abc import Hashable
from dataclasses import dataclass
from itertools import count
from typing import Generic, TypeVar

Place = TypeVar("Place", bound=Hashable)


@dataclass(slots=True, eq=False)
class Share:
    """What one stream has had.

    Attributes:
        mark_s: Seconds it used, and those it is taken to have used by resting.
    """

    mark_s: float = 0.0


class TurnOrder(Generic[Place]):
    """Streams that wait for a turn, each with the place where it wants to be called.

    Laws: whoever comes back from a rest has its turn after the slice that was begun and one of each
    other that came back; and of two that never rest neither gets ahead by more than a slice.
    """

    def __init__(self) -> None:
        self._now_s = 0.0
        self._last: Share | None = None
        self._waiting: list[tuple[float, bool, int, Share, Place]] = []
        self._arrivals = count()

    def __bool__(self) -> bool:
        """Whether anybody waits."""
        return bool(self._waiting)

    def goes_at_once(self, share: Share) -> bool:
        """Whether it is a stream's turn without waiting; if so, the turn has begun.

        It is for one that rested, and for one that nobody has interrupted.
        """
        if share.mark_s > self._now_s and (self._waiting or self._last is not share):
            return False
        self._begin(share)
        return True

    def wait(self, share: Share, place: Place) -> None:
        """Stand in line; ``call`` will return the place when it is the stream's turn."""
        # Of equal marks, that of one who rested comes first.
        has_rested = share.mark_s < self._now_s
        share.mark_s = max(share.mark_s, self._now_s)
        entry = (share.mark_s, not has_rested, next(self._arrivals), share, place)
        heapq.heappush(self._waiting, entry)

    def call(self) -> Place:
        """Let the next one's turn begin; somebody must be waiting."""
        *_, share, place = heapq.heappop(self._waiting)
        self._begin(share)
        return place

    def used(self, share: Share, seconds: float) -> None:
        """A stream's turn is over and took some time."""
        share.mark_s += seconds

    def _begin(self, share: Share) -> None:
        self._now_s = share.mark_s = max(self._now_s, share.mark_s)
        self._last = share
