"""One life of a request: from its admission to its end or its preemption."""

from collections.abc import Sequence
from dataclasses import dataclass

from kvquarry_core.ids import BlockId, GroupId, Handle, KindId
from kvquarry_core.messages import Admission, FullRows, Refusal
from kvquarry_core.plan import GroupKind
from kvquarry_core.prefix_index import Row
from kvquarry_tools.simulation.names import Names
from kvquarry_tools.simulation.replay.pools import ReplayPool
from kvquarry_tools.simulation.retentions import Checkpoints


@dataclass(frozen=True, slots=True)
class Plot:
    """What a life goes by.

    Attributes:
        handle: The pool's number for it.
        names: Its block hashes.
        checkpoints: Which of its states are kept.
        boundaries: Where a later request may resume, for that rule.
    """

    handle: Handle
    names: Names
    checkpoints: Checkpoints
    boundaries: tuple[int, ...]


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
            columns = [list(admission.hit_blocks[group]) for group in members]
            if spec.kind is GroupKind.RECURRENT_STATE:
                self._states.append(_States(kind, members, columns))
            else:
                self._attention.append(_Attention(kind, members, spec.block_tokens, columns))

    def advance(self, num_tokens: int) -> bool:
        """Take and commit blocks until ``num_tokens`` are computed.

        Returns:
            False at a shortage. What was taken until then is kept: a later call goes on from there.
        """
        plot = self._plot
        stops = plot.checkpoints.within(self.num_tokens, num_tokens, plot.boundaries)
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
            for group, column in zip(attention.groups, attention.columns, strict=True):
                column.extend(self._take(group, num_rows))
            attention.commit(pool, self._plot, num_tokens)
        for states in self._states:
            if states.running is None:
                states.start(pool, handle, Row(self._take(g, 1)[0] for g in states.groups))
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
                missing[group] += states.running is None
        wanted = [max(num_blocks, 0) for num_blocks in missing]
        if not any(wanted):
            return True
        answer = self._pool.grow(self._plot.handle, wanted)
        if isinstance(answer, Refusal):
            return False
        columns = zip(self._num_granted, wanted, strict=True)
        self._num_granted = [granted + more for granted, more in columns]
        return True

    def _take(self, group: GroupId, num_blocks: int) -> list[BlockId]:
        if not num_blocks:
            return []
        self._num_granted[group] -= num_blocks
        return self._pool.take(self._plot.handle, group, num_blocks)


def junction_tokens(admission: Admission) -> int:
    """Where a longer prefix of another request parts from this one's hit, or 0."""
    longest = admission.longest_tokens
    return longest if longest > admission.hit_tokens else 0


class _Attention:
    """The rows of a kind that keeps every block."""

    def __init__(
        self,
        kind: KindId,
        groups: Sequence[GroupId],
        block_tokens: int,
        columns: list[list[BlockId]],
    ) -> None:
        self.groups = groups
        self.columns = columns
        self._kind = kind
        self._block_tokens = block_tokens
        self._num_committed = len(columns[0])

    def num_new_rows(self, num_tokens: int) -> int:
        """Rows to be taken before ``num_tokens`` tokens are computed."""
        return max(-(-num_tokens // self._block_tokens) - len(self.columns[0]), 0)

    def commit(self, pool: ReplayPool, plot: Plot, num_tokens: int) -> None:
        """Make the rows findable that ``num_tokens`` tokens fill."""
        first, end = self._num_committed, num_tokens // self._block_tokens
        if end <= first:
            return
        self._num_committed = end
        block_tokens = self._block_tokens
        names = [plot.names.at(stop * block_tokens) for stop in range(first + 1, end + 1)]
        rows = zip(*(column[first:end] for column in self.columns), strict=True)
        blocks = [block for row in rows for block in row]
        pool.commit_rows([FullRows(plot.handle, self._kind, names, blocks)])


class _States:
    """The running state of a kind, and the checkpoint it was started from."""

    def __init__(
        self, kind: KindId, groups: Sequence[GroupId], columns: Sequence[Sequence[BlockId]]
    ) -> None:
        self.groups = groups
        self.running: Row | None = None
        self._kind = kind
        self._read = Row(column[-1] for column in columns) if columns[0] else None

    def start(self, pool: ReplayPool, handle: Handle, row: Row) -> None:
        """Go on in a row of its own; the checkpoint that was read is no longer needed."""
        self.running = row
        if self._read is not None:
            for group, block in zip(self.groups, self._read, strict=True):
                pool.drop(handle, group, block)
            self._read = None

    def commit(self, pool: ReplayPool, handle: Handle, names: Names, num_tokens: int) -> None:
        """The running state becomes a checkpoint."""
        assert self.running is not None, f"request {handle} reached {num_tokens} without a state"
        rows = FullRows(handle, self._kind, (names.at(num_tokens),), self.running)
        pool.commit_rows([rows])
        self._read, self.running = self.running, None
