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
from kvquarry_core.plan import GroupKind


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
        self._is_judged = [
            has_order_of_its_own
            and spec.may_be_hit
            and spec.kind is not states
            and spec.num_hashes_beyond in (0, spec.block_tokens // plan.hash_tokens)
            for spec in plan.groups
        ]

    def num_reached(self, group: GroupId, held: Sequence[BlockId]) -> int:
        """How many of a request's leading blocks in a group a hit may use.

        Goes back from the last block to the last checkpoint. Equal prefixes have equal hashes,
        whatever the kind, so the checkpoint at a block's end is found under the block's own. A
        draft's block of one hash unit has the name of the checkpoint at the next block's end; the
        names of longer ones are no checkpoint's, and all of these count as reached.
        """
        if not self._is_judged[group]:
            return len(held)
        plan = self._store.plan
        hash_of = self._store.contents.hashes(plan.class_of_group[group])
        # From the end, where mostly the first one is it.
        hashes = map(hash_of.__getitem__, reversed(held))
        num_reached = len(held) - self._store.index.num_before_known(self._states, hashes)
        return min(num_reached + plan.groups[group].num_hashes_beyond, len(held))
