"""A recency list over small ints in flat arrays: 16 bytes per member, no objects.

Members may have a *level*, and all of a lower level stand before all of a higher one. Each level is
a ring of its own through the same arrays, so levels cost nothing where nobody uses them.
"""

from array import array
from collections.abc import Iterator, MutableSequence, Sequence
from typing import Generic, TypeVar, cast

_ABSENT = -1
#: The stamp of what goes first, whenever it was pushed; other stamps are larger.
OLDEST_STAMP = 0
#: What a level adds to a stamp: whatever is of a higher level seems to be younger.
LEVEL_STAMP = 1 << 60


_Member = TypeVar("_Member", bound=int)


class RecencyList(Generic[_Member]):
    """Members ordered by level, then by the stamp they were pushed with; every call is O(levels).

    Members are ints in ``[0, size)``; stamps must not decrease from push to push.
    """

    def __init__(self, size: int, num_levels: int = 1) -> None:
        # The indices from `size` on are the sentinels that close the rings, the lowest level first.
        # Typed as what their items mean: a cast for each item would be a call for each.
        absent = array("i", [_ABSENT])
        self._absent = cast("_Member", _ABSENT)
        self._older = cast("MutableSequence[_Member]", absent * (size + num_levels))
        self._newer = cast("MutableSequence[_Member]", absent * (size + num_levels))
        self._stamp = array("q", [0]) * (size + num_levels)
        self._ends = cast("list[_Member]", list(range(size, size + num_levels)))
        self._end = self._ends[0]
        for end in self._ends:
            self._older[end] = self._newer[end] = end
        self._length = 0

    def __len__(self) -> int:
        return self._length

    def __contains__(self, member: _Member) -> bool:
        return self._newer[member] != _ABSENT

    def __iter__(self) -> Iterator[_Member]:
        """From the oldest to the newest, the lowest level first."""
        for end in self._ends:
            member = self._newer[end]
            while member != end:
                yield member
                member = self._newer[member]

    def push(self, member: _Member, stamp: int, level: int = 0) -> None:
        """Make ``member`` the newest of its level."""
        self.push_all((member,), stamp, level)

    def push_all(self, members: Sequence[_Member], first_stamp: int, level: int = 0) -> None:
        """Make ``members`` the newest of a level, one after the other; their stamps count up."""
        older, newer, stamps, end = self._older, self._newer, self._stamp, self._ends[level]
        newest = older[end]
        for stamp, member in enumerate(members, first_stamp + level * LEVEL_STAMP):
            assert newer[member] == _ABSENT, f"{member} is in the list already"
            assert member != newest, f"{member} is pushed twice"
            older[member] = newest
            newer[newest] = member
            stamps[member] = stamp
            newest = member
        self._tie(newest, end)
        self._length += len(members)

    def push_oldest(self, member: _Member) -> None:
        """Make ``member`` the oldest of all, with a stamp below those of all other pushes."""
        self.push_all_oldest((member,))

    def push_all_oldest(self, members: Sequence[_Member]) -> None:
        """The same for ``members``, one after the other: the last of them is the oldest then."""
        older, newer, stamps, oldest = self._older, self._newer, self._stamp, self._newer[self._end]
        for member in members:
            assert newer[member] == _ABSENT, f"{member} is in the list already"
            newer[member] = oldest
            older[oldest] = member
            stamps[member] = OLDEST_STAMP
            oldest = member
        self._tie(self._end, oldest)
        self._length += len(members)

    def remove(self, member: _Member) -> None:
        """Take ``member`` out, wherever it stands."""
        self.remove_all((member,))

    def remove_all(self, members: Sequence[_Member]) -> None:
        """Take ``members`` out, wherever they stand."""
        newer, end = self._newer, self._end
        previous = after_run = end
        # What was pushed together is mostly taken out together, the newest first. Such a run is
        # tied up once, at its ends.
        for member in members:
            after = newer[member]
            assert after != _ABSENT, f"{member} is not in the list"
            newer[member] = self._absent
            if after != previous:
                if previous != end:
                    self._tie(self._older[previous], after_run)
                after_run = after
            previous = member
        if previous != end:
            self._tie(self._older[previous], after_run)
        self._length -= len(members)

    def oldest(self) -> _Member | None:
        """The first member of the lowest level that has any, or None when the list is empty."""
        for end in self._ends if self._length else ():
            member = self._newer[end]
            if member != end:
                return member
        return None

    def stamp_of(self, member: _Member) -> int:
        """The stamp ``member`` was pushed with, and :data:`LEVEL_STAMP` for each of its levels."""
        return self._stamp[member]

    def _tie(self, older: _Member, newer: _Member) -> None:
        self._newer[older], self._older[newer] = newer, older
