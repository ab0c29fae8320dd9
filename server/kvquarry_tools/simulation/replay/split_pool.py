"""A static split: attention and states each have a pool of their own and never lend to each other.

Both are pools of the real core, with their own recency. What this class adds is what a split engine
would have to do as well: a hit is the longest prefix that both have.
"""

from collections.abc import Sequence
from dataclasses import replace

from kvquarry_core.coordinator import Coordinator
from kvquarry_core.ids import BlockHash, BlockId, GroupId, Handle, KindId
from kvquarry_core.messages import (
    Admission,
    AdmitRequest,
    FullRows,
    Grant,
    Refusal,
)
from kvquarry_core.plan import GroupKind, GroupSpec, Plan
from kvquarry_core.pool import Pool
from kvquarry_core.prefix_index import PrefixIndex
from kvquarry_tools.errors import InvalidOption
from kvquarry_tools.simulation.policies import plan_for


class SplitPool:
    """Two pools that answer as one."""

    def __init__(self, plan: Plan, memory_bytes: int, token_share: float) -> None:
        """``plan`` names groups and kinds, of states and of attention; its sizes are not used."""
        self.plan = plan
        members = _members(plan)
        token_bytes = int(memory_bytes * token_share)
        shares = (memory_bytes - token_bytes, token_bytes)
        self.moved_bytes = 0
        # States first: there are fewer of them, so they are what usually runs short.
        self.parts: Sequence[Pool] = tuple(
            _part([plan.groups[group] for group in groups], share, memory_bytes)
            for groups, share in zip(members, shares, strict=True)
        )
        self._members = members
        self._place = {
            group: (part, GroupId(groups.index(group)))
            for part, groups in zip(self.parts, members, strict=True)
            for group in groups
        }
        self._kinds = [_place_of_kind(self, KindId(index)) for index in range(len(plan.kinds))]
        self._coordinator = Coordinator(plan)
        self._index = _JointIndex(self._kinds)
        # What one part granted while the other refused: the next try has it already.
        self._ahead: dict[Handle, list[int]] = {}

    def keep_free(self, num_running: int, num_prompts: int) -> Sequence[int]:
        """See :meth:`ReplayPool.keep_free`; a split engine reserves nothing."""
        return ()

    def admit(self, request: AdmitRequest) -> Admission | Refusal:
        """See :meth:`Pool.admit`; the hit is what both have."""
        hit = self._coordinator.longest_hit(self._index, request.hashes, request.max_hit_tokens)
        answer = self._admit_on(hit.num_tokens, request)
        if answer is None:
            answer = self._admit_on(0, request)
        assert answer is not None, "two parts disagreed on a request without a hit"
        return replace(answer, longest_tokens=hit.longest_tokens)

    def grow(self, handle: Handle, num_blocks: Sequence[int]) -> Grant | Refusal:
        """See :meth:`Pool.grow`."""
        ahead = self._ahead.setdefault(handle, [0] * len(num_blocks))
        for part, groups in zip(self.parts, self._members, strict=True):
            missing = [max(num_blocks[group] - ahead[group], 0) for group in groups]
            answer = part.grow(handle, missing)
            if isinstance(answer, Refusal):
                return answer
            for group, more in zip(groups, missing, strict=True):
                ahead[group] += more
        self._ahead[handle] = [had - wanted for had, wanted in zip(ahead, num_blocks, strict=True)]
        return Grant(tuple([] for _ in num_blocks), tuple([] for _ in num_blocks))

    def take(self, handle: Handle, group: GroupId, num_blocks: int) -> list[BlockId]:
        """See :meth:`Pool.take`."""
        part, local = self._place[group]
        return part.take(handle, local, num_blocks)

    def held(self, handle: Handle, group: GroupId) -> Sequence[BlockId]:
        """See :meth:`ReplayPool.held`."""
        part, local = self._place[group]
        return part.requests[handle].held[local]

    def commit_rows(self, commits: Sequence[FullRows]) -> None:
        """See :meth:`Pool.commit_rows`."""
        for rows in commits:
            part, local = self._kinds[rows.kind]
            part.commit_rows([replace(rows, kind=local)])

    def drop(self, handle: Handle, group: GroupId, block: BlockId) -> None:
        """See :meth:`Pool.drop`."""
        part, local = self._place[group]
        part.drop(handle, local, block)

    def free(self, handle: Handle) -> None:
        """See :meth:`Pool.free`."""
        self._ahead.pop(handle, None)
        for part in self.parts:
            part.free(handle)

    def begin_step(self) -> None:
        """See :meth:`Pool.begin_step`."""
        for part in self.parts:
            part.begin_step()

    def _admit_on(self, hit_tokens: int, request: AdmitRequest) -> Admission | Refusal | None:
        """Admit to both parts with the same hit; None if one could only do without it."""
        admitted: list[Pool] = []
        answers: list[Admission] = []
        for part in self.parts:
            answer = part.admit(replace(request, max_hit_tokens=hit_tokens))
            if isinstance(answer, Admission):
                admitted.append(part)
                answers.append(answer)
                if answer.hit_tokens == hit_tokens:
                    continue
            for other in admitted:
                other.free(request.handle)
            return answer if isinstance(answer, Refusal) else None
        return self._merged(hit_tokens, answers)

    def _merged(self, hit_tokens: int, answers: Sequence[Admission]) -> Admission:
        hit_blocks: list[list[BlockId]] = [[] for _ in self.plan.groups]
        granted: list[list[BlockId]] = [[] for _ in self.plan.groups]
        for groups, answer in zip(self._members, answers, strict=True):
            for local, group in enumerate(groups):
                hit_blocks[group] = answer.hit_blocks[local]
                granted[group] = answer.grant.blocks[local]
        dirty: tuple[list[BlockId], ...] = tuple([] for _ in self.plan.groups)
        return Admission(hit_tokens, hit_tokens, tuple(hit_blocks), Grant(tuple(granted), dirty))


class _JointIndex(PrefixIndex):
    """The indexes of both parts, asked as if they were one."""

    def __init__(self, kinds: Sequence[tuple[Pool, KindId]]) -> None:
        super().__init__(len(kinds))
        self._places = kinds

    def find(self, kind: KindId, block_hash: BlockHash) -> BlockId | None:
        """See :meth:`PrefixIndex.find`."""
        part, local = self._places[kind]
        return part.store.index.find(local, block_hash)

    def find_leading(self, kind: KindId, hashes: Sequence[BlockHash]) -> list[BlockId]:
        """See :meth:`PrefixIndex.find_leading`."""
        part, local = self._places[kind]
        return part.store.index.find_leading(local, hashes)


def _part(groups: Sequence[GroupSpec], share_bytes: int, memory_bytes: int) -> Pool:
    """A pool of its own; in an error the share is named, since nobody gave that number of bytes."""
    try:
        return Pool(plan_for(groups, share_bytes))
    except InvalidOption as error:
        share = f"{share_bytes / memory_bytes:.0%}"
        raise InvalidOption(
            f"{error} in the part that --baseline static makes of {share} of it"
        ) from None


def _members(plan: Plan) -> tuple[list[GroupId], list[GroupId]]:
    """Groups of states, and the others."""
    states = [
        GroupId(index)
        for index, group in enumerate(plan.groups)
        if group.kind is GroupKind.RECURRENT_STATE
    ]
    others = [GroupId(index) for index in range(len(plan.groups)) if index not in states]
    return states, others


def _place_of_kind(pool: SplitPool, kind: KindId) -> tuple[Pool, KindId]:
    """Which part keeps a kind, and as which of its own."""
    group = pool.plan.kinds[kind][0]
    for part, groups in zip(pool.parts, _members(pool.plan), strict=True):
        if group in groups:
            local = GroupId(groups.index(group))
            for index, members in enumerate(part.plan.kinds):
                if local in members:
                    return part, KindId(index)
    raise AssertionError(f"kind {kind} is in neither part")
