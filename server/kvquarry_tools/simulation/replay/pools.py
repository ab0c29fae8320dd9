"""What a replay asks of a pool: the operations of :class:`kvquarry_core.pool.Pool`."""

from collections.abc import Sequence
from typing import Protocol

from kvquarry_core.ids import BlockId, GroupId, Handle
from kvquarry_core.messages import Admission, AdmitRequest, FullRows, Grant, Refusal
from kvquarry_core.plan import Plan
from kvquarry_core.pool import Pool
from kvquarry_core.reserve import DecodeReserve


class ReplayPool(Protocol):
    """One or several of the core's pools that answer as one."""

    plan: Plan
    #: The core's pools, to be measured.
    parts: Sequence[Pool]
    #: What relocation copied.
    moved_bytes: int

    def keep_free(self, num_running: int, num_prompts: int) -> Sequence[int]:
        """Blocks by class that an admission leaves free, see :class:`DecodeReserve`."""
        ...

    def admit(self, request: AdmitRequest) -> Admission | Refusal:
        """See :meth:`Pool.admit`."""
        ...

    def grow(self, handle: Handle, num_blocks: Sequence[int]) -> Grant | Refusal:
        """See :meth:`Pool.grow`."""
        ...

    def take(self, handle: Handle, group: GroupId, num_blocks: int) -> list[BlockId]:
        """See :meth:`Pool.take`."""
        ...

    def held(self, handle: Handle, group: GroupId) -> Sequence[BlockId]:
        """The blocks a request holds in a group, in the order in which it got them.

        Asked for anew whenever they are needed, since relocation changes their numbers.
        """
        ...

    def commit_rows(self, commits: Sequence[FullRows]) -> None:
        """See :meth:`Pool.commit_rows`."""
        ...

    def drop(self, handle: Handle, group: GroupId, block: BlockId) -> None:
        """See :meth:`Pool.drop`."""
        ...

    def free(self, handle: Handle) -> None:
        """See :meth:`Pool.free`."""
        ...

    def begin_step(self) -> None:
        """See :meth:`Pool.begin_step`."""
        ...


class WholePool:
    """One pool of the core, and what is kept free beside an admission, if anything."""

    def __init__(self, pool: Pool, reserve: DecodeReserve | None = None) -> None:
        self.plan = pool.plan
        self.parts: Sequence[Pool] = (pool,)
        self.moved_bytes = 0
        self._pool = pool
        self._reserve = reserve
        self.take = pool.take
        self.commit_rows = pool.commit_rows
        self.drop = pool.drop
        self.free = pool.free
        self.begin_step = pool.begin_step

    def keep_free(self, num_running: int, num_prompts: int) -> Sequence[int]:
        """See :meth:`ReplayPool.keep_free`."""
        return self._reserve.blocks(num_running, num_prompts) if self._reserve else ()

    def admit(self, request: AdmitRequest) -> Admission | Refusal:
        """See :meth:`Pool.admit`."""
        answer = self._pool.admit(request)
        if isinstance(answer, Admission):
            self._note_moves(answer.grant)
        return answer

    def grow(self, handle: Handle, num_blocks: Sequence[int]) -> Grant | Refusal:
        """See :meth:`Pool.grow`."""
        answer = self._pool.grow(handle, num_blocks)
        if isinstance(answer, Grant):
            self._note_moves(answer)
        return answer

    def held(self, handle: Handle, group: GroupId) -> Sequence[BlockId]:
        """See :meth:`ReplayPool.held`."""
        return self._pool.requests[handle].held[group]

    def _note_moves(self, grant: Grant) -> None:
        self.moved_bytes += sum(self.plan.block_bytes(move.size_class) for move in grant.moves)
