"""A recency list over small ints that come and go many at a time.

What is pushed together has one stamp and stands together as one *run*; whoever pushes or removes
hundreds of members pays for them in bulk. A member costs eight bytes in a flat list, and 16 in its
run, 32 at most: there are no more gaps than members.

Members may have a *level*, and all of a lower level stand before all of a higher one. Each level is
a ring of runs of its own, so levels cost nothing where nobody uses them.
"""

from collections.abc import Iterator, Sequence
from itertools import compress, groupby, islice
from typing import Generic, TypeVar

#: The stamp of what goes first, whenever it was pushed; other stamps are larger.
OLDEST_STAMP = 0
#: What a level adds to a stamp: whatever is of a higher level seems to be younger.
LEVEL_STAMP = 1 << 60
# So few members share a run with those pushed before and after them, as long as that is short.
_FEW = 8
_SHORT = 64


_Member = TypeVar("_Member", bound=int)


class _Run(Generic[_Member]):
    """Members in order; those that left it since are gaps, unless they stood at an end."""

    __slots__ = ("first", "members", "newer", "num_in", "older", "stamps")

    def __init__(self, members: Sequence[_Member], stamp: int) -> None:
        self.members = list(members)
        #: One per member: several only where few members joined those pushed before them.
        self.stamps = [stamp] * len(members)
        self.num_in = len(self.members)
        #: Where the oldest one stands that is still in.
        self.first = 0
        self.older = self.newer = self

    def link(self, older: "_Run[_Member]") -> None:
        """Stand behind another run of a ring."""
        self.older, self.newer = older, older.newer
        older.newer.older = older.newer = self

    def unlink(self) -> None:
        """Leave the ring."""
        self.older.newer, self.newer.older = self.newer, self.older

    def stamp_of(self, member: _Member) -> int:
        """What a member was pushed with; mostly all were pushed with the same."""
        stamps = self.stamps
        if stamps[0] == stamps[-1]:
            return stamps[0]
        return stamps[self.members.index(member, self.first)]

    def goes_first(self) -> bool:
        """Whether its members were pushed as the oldest."""
        return OLDEST_STAMP in self.stamps[:1]

    def may_be_extended(self) -> bool:
        """Whether it is short and has no gaps: whoever left it may be among those to come."""
        has_no_gaps = self.first + self.num_in == len(self.members)
        return has_no_gaps and 0 < self.num_in < _SHORT and not self.goes_first()

    def rename(self, member: _Member, other: _Member, is_in: Sequence[bool]) -> None:
        """One member is called otherwise; gaps are closed, which may have had the other name."""
        stamps = compress(islice(self.stamps, self.first, None), is_in)
        members = list(compress(islice(self.members, self.first, None), is_in))
        members[members.index(member)] = other
        self.members, self.stamps, self.first = members, list(stamps), 0

    def extend(self, members: Sequence[_Member], stamp: int) -> None:
        """More members, younger than those that are here."""
        self.members += members
        self.stamps += [stamp] * len(members)
        self.num_in += len(members)


class RecencyList(Generic[_Member]):
    """Members ordered by level, then by the stamp they were pushed with.

    Members are ints in ``[0, size)``; stamps must increase from push to push. Those pushed together
    share one, and the one named first is the oldest of them.
    """

    def __init__(self, size: int, num_levels: int = 1) -> None:
        self._run_of: list[_Run[_Member] | None] = [None] * size
        # One empty run closes the ring of each level, the lowest first.
        self._ends = [_Run[_Member]((), OLDEST_STAMP) for _ in range(num_levels)]
        self._length = 0

    def __len__(self) -> int:
        return self._length

    def __contains__(self, member: _Member) -> bool:
        return self._run_of[member] is not None

    def __iter__(self) -> Iterator[_Member]:
        """From the oldest to the newest, the lowest level first."""
        run_of = self._run_of
        for end in self._ends:
            run = end.newer
            while run is not end:
                for member in islice(run.members, run.first, None):
                    if run_of[member] is run:
                        yield member
                run = run.newer

    def push(self, member: _Member, stamp: int, level: int = 0) -> None:
        """Make ``member`` the newest of its level."""
        self.push_all((member,), stamp, level)

    def push_all(self, members: Sequence[_Member], stamp: int, level: int = 0) -> None:
        """Make ``members`` the newest of a level, one after the other."""
        stamp += level * LEVEL_STAMP
        newest = self._ends[level].older
        if len(members) <= _FEW and newest.may_be_extended():
            self._enter(newest, members)
            newest.extend(members, stamp)
        elif members:
            run = _Run(members, stamp)
            self._enter(run, members)
            run.link(newest)

    def push_oldest(self, member: _Member) -> None:
        """Make ``member`` the oldest of all, with a stamp below those of all other pushes."""
        self.push_all_oldest((member,))

    def push_all_oldest(self, members: Sequence[_Member]) -> None:
        """The same for ``members``, one after the other: the last of them is the oldest then."""
        if members:
            run = _Run(members[::-1], OLDEST_STAMP)
            self._enter(run, members)
            run.link(self._ends[0])

    def remove(self, member: _Member) -> None:
        """Take ``member`` out, wherever it stands."""
        self.remove_all((member,))

    def remove_all(self, members: Sequence[_Member]) -> None:
        """Take ``members`` out, wherever they stand."""
        runs = list(map(self._run_of.__getitem__, members))
        if runs and runs.count(runs[0]) == len(runs):
            # What was pushed together is mostly taken out together.
            self._leave(runs[0], members)
            return
        start = 0
        for run, same in groupby(runs):
            end = start + len(list(same))
            self._leave(run, members[start:end])
            start = end

    def rename(self, member: _Member, other: _Member) -> None:
        """Another one takes the place of ``member``, and its stamp; O(members of a run)."""
        run_of, run = self._run_of, self._run_of[member]
        assert run is not None, f"{member} is not in the list"
        assert run_of[other] is None, f"{other} is in the list already"
        run.rename(member, other, [run_of[one] is run for one in run.members[run.first :]])
        run_of[member], run_of[other] = None, run

    def oldest(self) -> _Member | None:
        """The first member of the lowest level that has any, or None when the list is empty."""
        run = self._oldest_run()
        return None if run is None else run.members[run.first]

    def oldest_together(self, most: int) -> list[_Member]:
        """The oldest and up to ``most`` in all that were pushed together with it, in order."""
        run = self._oldest_run()
        if run is None:
            return []
        members = run.members[run.first : run.first + most]
        return [member for member in members if self._run_of[member] is run]

    def stamp_of(self, member: _Member) -> int:
        """The stamp ``member`` was pushed with, and :data:`LEVEL_STAMP` for each of its levels."""
        run = self._run_of[member]
        assert run is not None, f"{member} is not in the list"
        return run.stamp_of(member)

    def go_first(self, members: slice) -> bool:
        """Whether all of them that are in were pushed as the oldest."""
        if not self._ends[0].newer.goes_first():
            return False
        return all(run is None or run.goes_first() for run in set(self._run_of[members]))

    def _oldest_run(self) -> _Run[_Member] | None:
        for end in self._ends:
            if end.newer is not end:
                return end.newer
        return None

    def _enter(self, run: _Run[_Member], members: Sequence[_Member]) -> None:
        run_of = self._run_of
        assert not any(map(run_of.__getitem__, members)), f"one of {members} is in the list already"
        for member in members:
            run_of[member] = run
        self._length += len(members)

    def _leave(self, run: _Run[_Member] | None, members: Sequence[_Member]) -> None:
        assert run is not None, f"{members[0]} is not in the list"
        run_of = self._run_of
        for member in members:
            run_of[member] = None
        self._length -= len(members)
        run.num_in -= len(members)
        if run.num_in:
            self._close_gaps(run, list(members))
        else:
            run.unlink()

    def _close_gaps(self, run: _Run[_Member], gone: list[_Member]) -> None:
        """Members left a run: its ends are cut off, and gaps that outnumber members are closed."""
        run_of, members = self._run_of, run.members
        gone.reverse()
        if members[-len(gone) :] == gone:
            # A request's blocks stand from its tail to its head, and its head is what others hit.
            del members[-len(gone) :], run.stamps[-len(gone) :]
        while run_of[members[run.first]] is not run:
            run.first += 1
        if 2 * run.num_in < len(members):
            rest, stamps = members[run.first :], run.stamps[run.first :]
            is_in = [run_of[member] is run for member in rest]
            run.members, run.stamps = list(compress(rest, is_in)), list(compress(stamps, is_in))
            run.first = 0
