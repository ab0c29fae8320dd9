"""What a replay asks of a pool: the operations of :class:`kvquarry_core.pool.Pool`."""

from collections.abc import Sequence
from typing import Protocol

from kvquarry_core.ids import BlockId, GroupId, Handle
from kvquarry_core.messages import Admission, AdmitRequest, FullRows, Grant, Refusal
from kvquarry_core.plan import Plan
from kvquarry_core.pool import Pool


class ReplayPool(Protocol):
    """One or several of the core's pools that answer as one."""

    plan: Plan

    @property
    def parts(self) -> Sequence[Pool]:
        """The core's pools, to be measured."""
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


class WholePool(Pool):
    """One pool of the core."""

    @property
    def parts(self) -> Sequence[Pool]:
        """See :attr:`ReplayPool.parts`."""
        return (self,)
