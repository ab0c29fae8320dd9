"""What one request holds in the pool."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from kvquarry_core.ids import BlockHash, BlockId, GroupId, KindId, SlabId
from kvquarry_core.names import NO_NAMES, RememberedNames
from kvquarry_core.promise import Promise

#: Where a commit's blocks stand among what its request holds, by member group of their kind; None
#: where they do not stand together.
Places = Sequence[int | None]


@dataclass(slots=True)
class RequestRecord:
    """The blocks a request references and those granted to it.

    Attributes:
        held: Per group, in the order of their positions; each is one reference.
        granted: Per group, the next one to spend first.
        may_be_dirty: Per group, whether one of those granted was dirty.
        settled: Per group, the place in ``held`` from which on the blocks are the request's alone
            and carry no hash: those it may commit.
        promise: What was promised at admission and not granted yet.
        resumed: Per kind of state, the checkpoint it resumed at, until it outgrows that.
        resumable: Per kind of state, the deepest checkpoint that its next turn could resume at.
        last_slab: Per size class, where the request took its last block from.
        query_tokens: Tokens looked up at admission, until they are counted.
        hit_tokens: Tokens found at admission, until they are counted.
        priority: That of what it leaves behind.
        names: Those of its admission, where somebody commits by their places.
    """

    held: list[list[BlockId]]
    granted: list[list[BlockId]]
    may_be_dirty: list[bool]
    promise: Promise
    settled: list[int]
    resumed: dict[KindId, BlockHash] = field(default_factory=dict)
    resumable: dict[KindId, BlockHash] = field(default_factory=dict)
    last_slab: dict[int, SlabId] = field(default_factory=dict)
    query_tokens: int = 0
    hit_tokens: int = 0
    priority: int = 0
    names: RememberedNames = NO_NAMES

    @classmethod
    def empty(cls, num_groups: int) -> "RequestRecord":
        """A request that holds nothing and was promised nothing."""
        held: list[list[BlockId]] = [[] for _ in range(num_groups)]
        granted: list[list[BlockId]] = [[] for _ in range(num_groups)]
        nothing, clean = [0] * num_groups, [False] * num_groups
        return cls(held, granted, clean, Promise.of(nothing, nothing), nothing)

    def place_of(self, group: GroupId, blocks: list[BlockId]) -> int | None:
        """Where ``blocks`` stand, one after the other, among those that may be committed."""
        held, start = self.held[group], self.settled[group]
        if blocks and blocks[0] not in held[start : start + 1]:
            try:
                start = held.index(blocks[0], start)
            except ValueError:
                return None
        return start if held[start : start + len(blocks)] == blocks else None

    def missing(self, group: GroupId, blocks: Sequence[BlockId]) -> BlockId | None:
        """One of the blocks that is not in ``held`` as often as named, or None.

        Counted once: to look through a long request's blocks for each takes quadratic time.
        """
        held = self.held[group]
        if len(blocks) == 1:
            return None if blocks[0] in held else blocks[0]
        return min(Counter(blocks) - Counter(held), default=None)

    def remove(self, group: GroupId, blocks: Sequence[BlockId]) -> BlockId | None:
        """Take blocks out of ``held``; one that is not there is returned, and none is taken then.

        The list is gone through once, however many they are: a window leaves hundreds behind.
        """
        if len(blocks) == 1:
            return self._remove_one(group, blocks[0])
        held, going = self.held[group], Counter(blocks)
        kept, num_settled = [], 0
        for place, block in enumerate(held):
            if going.get(block):
                going[block] -= 1
                num_settled += place < self.settled[group]
            else:
                kept.append(block)
        missing = next((block for block, num_times in going.items() if num_times), None)
        if missing is None:
            self.held[group] = kept
            self.settled[group] -= num_settled
        return missing

    def _remove_one(self, group: GroupId, block: BlockId) -> BlockId | None:
        """A state, mostly: there is nothing to count."""
        held = self.held[group]
        try:
            place = held.index(block)
        except ValueError:
            return block
        del held[place]
        self.settled[group] -= place < self.settled[group]
        return None
