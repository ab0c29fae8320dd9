"""Pools to put under churn: the real core, behind the few words the engine of churn needs."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from kvquarry_core.ids import GroupId, Handle
from kvquarry_core.messages import Admission, AdmitRequest, Grant, Refusal
from kvquarry_core.plan import GroupKind, GroupSpec
from kvquarry_core.pool import Pool


@dataclass(frozen=True, slots=True)
class Need:
    """Bytes of content, without blocks and padding.

    Attributes:
        bytes_per_token: All layers that grow with every token.
        bytes_per_request: All states of a request.
    """

    bytes_per_token: int
    bytes_per_request: int


def need_of(groups: Sequence[GroupSpec]) -> Need:
    """What groups of full attention and of states need."""
    per_token = per_request = 0
    for group in groups:
        if group.kind is GroupKind.RECURRENT_STATE:
            per_request += group.page_bytes * group.num_layers
        else:
            per_token += group.page_bytes * group.num_layers // group.block_tokens
    return Need(per_token, per_request)


class ChurnPool(Protocol):
    """What the engine of churn asks of a pool."""

    need: Need
    block_tokens: int
    moved_bytes: int

    def begin_step(self) -> None:
        """A step begins: what was handed out before may move."""
        ...

    def admit(self, handle: Handle, num_tokens: int) -> bool:
        """Take everything for so many tokens, or nothing."""
        ...

    def grow(self, handle: Handle) -> bool:
        """Take one more block in every group that grows, or nothing."""
        ...

    def free(self, handle: Handle) -> None:
        """Give everything back."""
        ...


class CorePool:
    """The real core without a prefix cache.

    The groups' own content is what counts as needed, whatever sizes the plan gives their blocks.
    """

    def __init__(self, pool: Pool, need: Need) -> None:
        self.pool = pool
        self.need = need
        self.moved_bytes = 0
        self.block_tokens = min(group.block_tokens for group in pool.plan.groups if _grows(group))
        self._one_more = [int(_grows(group)) for group in pool.plan.groups]

    def begin_step(self) -> None:
        """See :meth:`ChurnPool.begin_step`."""
        self.pool.begin_step()

    def admit(self, handle: Handle, num_tokens: int) -> bool:
        """See :meth:`ChurnPool.admit`."""
        answer = self.pool.admit(
            AdmitRequest(
                handle=handle,
                hashes=(),
                num_tokens=num_tokens,
                max_hit_tokens=0,
                max_grant_tokens=num_tokens,
                must_fit_tokens=num_tokens,
            )
        )
        if isinstance(answer, Refusal):
            return False
        assert isinstance(answer, Admission)
        self._spend(handle, answer.grant)
        return True

    def grow(self, handle: Handle) -> bool:
        """See :meth:`ChurnPool.grow`."""
        answer = self.pool.grow(handle, self._one_more)
        if isinstance(answer, Refusal):
            return False
        self._spend(handle, answer)
        return True

    def free(self, handle: Handle) -> None:
        """See :meth:`ChurnPool.free`."""
        self.pool.free(handle)

    def _spend(self, handle: Handle, grant: Grant) -> None:
        plan = self.pool.plan
        self.moved_bytes += sum(plan.block_bytes(move.size_class) for move in grant.moves)
        for group, blocks in enumerate(grant.blocks):
            if blocks:
                self.pool.take(handle, GroupId(group), len(blocks))


def _grows(group: GroupSpec) -> bool:
    return group.kind is GroupKind.FULL_ATTENTION
