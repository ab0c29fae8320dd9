"""A recency list over small ints in flat arrays: 16 bytes per member, no objects."""

from array import array
from collections.abc import Iterator

_ABSENT = -1


class RecencyList:
    """Members ordered by the stamp they were pushed with; every call is O(1).

    Members are ints in ``[0, size)``; stamps must not decrease from push to push.
    """

    def __init__(self, size: int) -> None:
        # Index `size` is the sentinel that closes the ring.
        self._older = array("i", [_ABSENT]) * (size + 1)
        self._newer = array("i", [_ABSENT]) * (size + 1)
        self._stamp = array("q", [0]) * (size + 1)
        self._end = size
        self._older[size] = self._newer[size] = size
        self._length = 0

    def __len__(self) -> int:
        return self._length

    def __contains__(self, member: int) -> bool:
        return self._newer[member] != _ABSENT

    def __iter__(self) -> Iterator[int]:
        """From the oldest to the newest."""
        member = self._newer[self._end]
        while member != self._end:
            yield member
            member = self._newer[member]

    def push(self, member: int, stamp: int) -> None:
        """Make ``member`` the newest."""
        assert member not in self, f"{member} is in the list already"
        newest = self._older[self._end]
        self._older[member], self._newer[member] = newest, self._end
        self._newer[newest] = self._older[self._end] = member
        self._stamp[member] = stamp
        self._length += 1

    def remove(self, member: int) -> None:
        """Take ``member`` out, wherever it stands."""
        assert member in self, f"{member} is not in the list"
        older, newer = self._older[member], self._newer[member]
        self._newer[older], self._older[newer] = newer, older
        self._older[member] = self._newer[member] = _ABSENT
        self._length -= 1

    def oldest(self) -> int | None:
        """The member pushed first, or None when the list is empty."""
        return self._newer[self._end] if self._length else None

    def stamp_of(self, member: int) -> int:
        """The stamp ``member`` was pushed with."""
        return self._stamp[member]
