"""One life of a request: from its admission to its end or its preemption."""

from collections.abc import Sequence
from dataclasses import dataclass

from kvquarry_core.checkpoints import Checkpoints
from kvquarry_core.group_rules import window_of
from kvquarry_core.ids import GroupId, Handle, KindId
from kvquarry_core.messages import Admission, FullRows, Refusal
from kvquarry_core.plan import GroupKind, GroupSpec
from kvquarry_core.retention import Landmarks
from kvquarry_tools.simulation.names import Names
from kvquarry_tools.simulation.replay.arrivals import Arrival
from kvquarry_tools.simulation.replay.pools import ReplayPool


@dataclass(frozen=True, slots=True)
class Plot:
    """What a life goes by.

    Attributes:
        handle: The pool's number for it.
        names: Its block hashes.
        checkpoints: Which of its states are kept.
        landmarks: Where its text is known to be gone on from, aligned.
    """

    handle: Handle
    names: Names
    checkpoints: Checkpoints
    landmarks: Landmarks


class Life:
    """A request's blocks, position by position.

    The running state becomes a checkpoint where one is to be kept, and what follows is written to
    a state of its own. A checkpoint is dropped once it was read, and stays cached.
    """

    def __init__(self, pool: ReplayPool, plot: Plot, admission: Admission) -> None:
        #: Tokens whose blocks are there.
        self.num_tokens = admission.hit_tokens
        self._pool = pool
        self._plot = plot
        self._num_granted = [len(blocks) for blocks in admission.grant.blocks]
        self._attention: list[_Attention] = []
        self._states: list[_States] = []
        for index, members in enumerate(pool.plan.kinds):
            kind, spec = KindId(index), pool.plan.spec_of_kind(KindId(index))
            num_hit = len(admission.hit_blocks[members[0]])
            if spec.kind is GroupKind.RECURRENT_STATE:
                self._states.append(_States(kind, members, num_hit))
            else:
                num_rows = admission.hit_tokens // spec.block_tokens
                self._attention.append(_Attention(kind, members, spec, num_rows, num_hit))

    def advance(self, num_tokens: int) -> bool:
        """Take and commit blocks until ``num_tokens`` are computed.

        Returns:
            False at a shortage. What was taken until then is kept: a later call goes on from there.
        """
        plot = self._plot
        stops = plot.checkpoints.within(self.num_tokens + 1, num_tokens, plot.landmarks)
        for position in stops if self._states else ():
            if not self._advance_to(position):
                return False
            for states in self._states:
                states.commit(self._pool, plot.handle, plot.names, position)
        return num_tokens == self.num_tokens or self._advance_to(num_tokens)

    def _advance_to(self, num_tokens: int) -> bool:
        if not self._ask(num_tokens):
            return False
        handle, pool = self._plot.handle, self._pool
        for attention in self._attention:
            num_rows = attention.num_new_rows(num_tokens)
            for group in attention.groups:
                self._take(group, num_rows)
            attention.num_rows += num_rows
            attention.commit(pool, self._plot, num_tokens)
            attention.drop_unread(pool, handle, num_tokens)
        for states in self._states:
            if not states.is_running:
                for group in states.groups:
                    self._take(group, 1)
                states.start(pool, handle)
        self.num_tokens = num_tokens
        return True

    def _ask(self, num_tokens: int) -> bool:
        """Have granted what ``num_tokens`` tokens take."""
        missing = [-granted for granted in self._num_granted]
        for attention in self._attention:
            for group in attention.groups:
                missing[group] += attention.num_new_rows(num_tokens)
        for states in self._states:
            for group in states.groups:
                missing[group] += not states.is_running
        wanted = [max(num_blocks, 0) for num_blocks in missing]
        if not any(wanted):
            return True
        answer = self._pool.grow(self._plot.handle, wanted)
        if isinstance(answer, Refusal):
            return False
        columns = zip(self._num_granted, wanted, strict=True)
        self._num_granted = [granted + more for granted, more in columns]
        return True

    def _take(self, group: GroupId, num_blocks: int) -> None:
        if num_blocks:
            self._num_granted[group] -= num_blocks
            self._pool.take(self._plot.handle, group, num_blocks)


def plot_of(arrival: Arrival, handle: Handle, checkpoints: Checkpoints, answer: Admission) -> Plot:
    """What a life goes by that begins with an admission."""
    longest = answer.longest_tokens
    landmarks = Landmarks(
        (arrival.request.num_shareable_tokens,), (longest,) if longest > answer.hit_tokens else ()
    )
    aligned = landmarks.aligned(checkpoints.alignment_tokens)
    return Plot(handle, arrival.names, checkpoints, aligned)


class _Attention:
    """The rows of a kind that keeps every block, or those within its window."""

    def __init__(
        self,
        kind: KindId,
        groups: Sequence[GroupId],
        spec: GroupSpec,
        num_rows: int,
        num_held: int,
    ) -> None:
        self.groups = groups
        self.num_rows = num_rows
        self._kind = kind
        self._block_tokens = spec.block_tokens
        self._window = window_of(spec)
        self._first_held = num_rows - num_held
        self._num_committed = num_rows

    def num_new_rows(self, num_tokens: int) -> int:
        """Rows to be taken before ``num_tokens`` tokens are computed."""
        return max(-(-num_tokens // self._block_tokens) - self.num_rows, 0)

    def commit(self, pool: ReplayPool, plot: Plot, num_tokens: int) -> None:
        """Make the rows findable that ``num_tokens`` tokens fill."""
        first, end = self._num_committed, num_tokens // self._block_tokens
        if end <= first:
            return
        self._num_committed = end
        names = [plot.names.at(stop * self._block_tokens) for stop in range(first + 1, end + 1)]
        held = slice(first - self._first_held, end - self._first_held)
        columns = [pool.held(plot.handle, group)[held] for group in self.groups]
        blocks = [block for row in zip(*columns, strict=True) for block in row]
        pool.commit_rows([FullRows(plot.handle, self._kind, names, blocks)])

    def drop_unread(self, pool: ReplayPool, handle: Handle, num_tokens: int) -> None:
        """Drop the rows that nothing after ``num_tokens`` tokens reads."""
        if self._window is None:
            return
        first_read = self._window.first_position(num_tokens)
        for _ in range(self._first_held, first_read):
            for group in self.groups:
                pool.drop(handle, group, pool.held(handle, group)[0])
        self._first_held = max(self._first_held, first_read)


class _States:
    """The running state of a kind: the last block held. Before it the checkpoint it began from."""

    def __init__(self, kind: KindId, groups: Sequence[GroupId], num_hit: int) -> None:
        self.groups = groups
        self.is_running = False
        self._kind = kind
        self._has_checkpoint = num_hit > 0

    def start(self, pool: ReplayPool, handle: Handle) -> None:
        """Go on in the state just taken; the checkpoint that was read is no longer needed."""
        self.is_running = True
        if self._has_checkpoint:
            for group in self.groups:
                pool.drop(handle, group, pool.held(handle, group)[0])
            self._has_checkpoint = False

    def commit(self, pool: ReplayPool, handle: Handle, names: Names, num_tokens: int) -> None:
        """The running state becomes a checkpoint."""
        assert self.is_running, f"request {handle} reached {num_tokens} without a state"
        blocks = [pool.held(handle, group)[-1] for group in self.groups]
        pool.commit_rows([FullRows(handle, self._kind, (names.at(num_tokens),), blocks)])
        self.is_running, self._has_checkpoint = False, True
