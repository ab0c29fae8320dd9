"""How far hits reach into what a finished request leaves behind.

A hit ends where there is a checkpoint, so attention after the last one is of no use::

    tokens       0                               n
    states                    s          s
    attention    |===========================|-------|
                         can be hit            cannot

It may still show where prompts part, so it stays until its memory is wanted, and goes first then.
"""

from collections.abc import Sequence

from kvquarry_core.block_store import BlockStore
from kvquarry_core.ids import BlockId, GroupId, KindId
from kvquarry_core.plan import GroupKind, Plan


class Reach:
    """Tells blocks that a later hit may use from those that no hit can use.

    In a pool of blocks of one size everything counts as reached: its order is that of stock vLLM.
    """

    def __init__(self, store: BlockStore) -> None:
        self._store = store
        plan = store.plan
        states = GroupKind.RECURRENT_STATE
        kinds = [KindId(index) for index in range(len(plan.kinds))]
        self._states = [kind for kind in kinds if plan.spec_of_kind(kind).kind is states]
        num_sizes = len({size_class.stride_bytes for size_class in plan.classes})
        has_order_of_its_own = bool(self._states) and num_sizes > 1
        self._tellers = [
            self._teller_of(GroupId(group))
            if has_order_of_its_own and spec.may_be_hit and spec.kind is not states
            else None
            for group, spec in enumerate(plan.groups)
        ]

    def num_reached(self, group: GroupId, held: Sequence[Sequence[BlockId]]) -> int:
        """How many of a request's leading blocks in a group a hit may use.

        Args:
            group: The group.
            held: The request's blocks by group.
        """
        teller, num_blocks = self._tellers[group], len(held[group])
        if teller is None:
            return num_blocks
        num_reached = self._num_told(teller, held[teller])
        if teller == group:
            return num_reached
        groups = self._store.plan.groups
        num_tokens = num_reached * groups[teller].block_tokens
        return min(-(-num_tokens // groups[group].block_tokens), num_blocks)

    def _num_told(self, group: GroupId, held: Sequence[BlockId]) -> int:
        """Goes back from the last block to the last checkpoint.

        Equal prefixes have equal hashes, whatever the kind, so the checkpoint at a block's end is
        found under the block's own. A draft's block of one hash unit has the name of the one at
        the next block's end.
        """
        plan = self._store.plan
        hash_of = self._store.contents.hashes(plan.class_of_group[group])
        # From the end, where mostly the first one is it.
        hashes = map(hash_of.__getitem__, reversed(held))
        num_told = len(held) - self._store.index.num_before_known(self._states, hashes)
        return min(num_told + plan.groups[group].num_hashes_beyond, len(held))

    def _teller_of(self, group: GroupId) -> GroupId | None:
        """The group whose names tell how far hits reach into another, or None.

        Mostly a group itself. Names of a draft's longer blocks are no checkpoint's: such a group
        goes by another one that keeps every block, if it does itself.
        """
        plan = self._store.plan
        if _names_checkpoints(plan, group):
            return group
        keepers = [
            GroupId(index)
            for index, spec in enumerate(plan.groups)
            if spec.kind is GroupKind.FULL_ATTENTION
        ]
        tellers = [one for one in keepers if group in keepers and _names_checkpoints(plan, one)]
        return tellers[0] if tellers else None


def _names_checkpoints(plan: Plan, group: GroupId) -> bool:
    """Whether checkpoints are found under the names of a group's rows."""
    spec = plan.groups[group]
    return not spec.is_draft or spec.block_tokens == plan.hash_tokens
