"""What blocks hold: the hash each of them is findable under, and what a policy asks of content."""

from collections.abc import Iterable, Sequence

from kvquarry_core.errors import BrokenLaw
from kvquarry_core.ids import BlockHash, BlockId, ClassId, KindId
from kvquarry_core.plan import Plan
from kvquarry_core.prefix_index import Commitment, PrefixIndex, Rows
from kvquarry_core.priorities import Priorities


class Contents:
    """The way back from a block to its entry in the prefix index."""

    def __init__(self, plan: Plan, index: PrefixIndex) -> None:
        self.priorities = Priorities(plan)
        self._plan = plan
        self._index = index
        self._kinds_of_class: list[list[KindId]] = [[] for _ in plan.classes]
        for kind in map(KindId, range(len(plan.kinds))):
            self._kinds_of_class[plan.class_of_kind(kind)].append(kind)
        # Lists: their items are read and written in a third of the time of an array's. They cost
        # eight bytes each, since the hashes are those of the index.
        self._hashes: list[list[BlockHash | None]] = [[None] * c.num_blocks for c in plan.classes]
        # Tokens that checkpoints sum up, and those of any other block.
        self._depths: list[dict[BlockId, int]] = [{} for _ in plan.classes]
        self._block_tokens = [
            plan.groups[plan.class_of_group.index(ClassId(index))].block_tokens
            for index in range(len(plan.classes))
        ]
        # States committed in this step, which is yet to write them; by kind, named by their first
        # blocks.
        self._unwritten: list[set[BlockId]] = [set() for _ in plan.kinds]

    def hashes(self, size_class: ClassId) -> Sequence[BlockHash | None]:
        """The hash of every block of a class, for those who ask for many; not to be changed."""
        return self._hashes[size_class]

    def hash_of(self, size_class: ClassId, block: BlockId) -> BlockHash | None:
        """The hash that a block is findable under, if any."""
        return self._hashes[size_class][block]

    def is_hashed(self, size_class: ClassId, block: BlockId) -> bool:
        """Whether a block is findable."""
        return self._hashes[size_class][block] is not None

    def commitment(self, size_class: ClassId, block: BlockId) -> Commitment | None:
        """What a block is findable under, if anything."""
        block_hash = self._hashes[size_class][block]
        if block_hash is None:
            return None
        for kind in self._kinds_of_class[size_class]:
            row = self._index.row_with(kind, block_hash, block)
            if row is not None:
                return Commitment(kind, block_hash, row)
        raise BrokenLaw(f"block {block} of class {size_class} is hashed but not indexed")

    def depth_tokens(self, size_class: ClassId, block: BlockId) -> int:
        """Tokens that a checkpoint sums up; 0 where it is not known, and for other blocks."""
        return self._depths[size_class].get(block, 0)

    def block_tokens(self, size_class: ClassId) -> int:
        """Tokens of any other block."""
        return self._block_tokens[size_class]

    def raise_priority(self, priority: int, size_class: ClassId, blocks: Iterable[BlockId]) -> None:
        """Somebody of this priority used what some blocks hold, if they hold anything."""
        hashes = self._hashes[size_class]
        used = [block for block in blocks if hashes[block] is not None]
        self.priorities.raise_to(priority, size_class, used)

    def commit(self, kind: KindId, hashes: Sequence[BlockHash], blocks: list[BlockId]) -> None:
        """Make referenced rows findable.

        Args:
            kind: Whose rows they are.
            hashes: One per row.
            blocks: The rows one after another: one block per row and member group.
        """
        hash_of, width = self._hashes[self._plan.class_of_kind(kind)], len(self._plan.kinds[kind])
        for member in range(width):
            column = blocks if width == 1 else blocks[member::width]
            for block_hash, block in zip(hashes, column, strict=True):
                hash_of[block] = block_hash
        self._index.insert(kind, hashes, blocks)

    def commit_states(
        self,
        kind: KindId,
        hashes: Sequence[BlockHash],
        blocks: list[BlockId],
        depth_tokens: int,
    ) -> None:
        """The same for checkpoints that sum up so many tokens (0: unknown).

        Until the next step begins they are findable, but not there yet.
        """
        if depth_tokens:
            depths = self._depths[self._plan.class_of_kind(kind)]
            depths.update(dict.fromkeys(blocks, depth_tokens))
        self._unwritten[kind].update(blocks[:: len(self._plan.kinds[kind])])
        self.commit(kind, hashes, blocks)

    def are_written(self, kind: KindId, firsts: Iterable[BlockId]) -> bool:
        """Whether rows, named by their first blocks, can be read in this step."""
        unwritten = self._unwritten[kind]
        return not unwritten or unwritten.isdisjoint(firsts)

    def begin_step(self) -> None:
        """What was committed so far is there from now on."""
        for unwritten in self._unwritten:
            unwritten.clear()

    def forget(self, size_class: ClassId, blocks: Iterable[BlockId]) -> list[Rows]:
        """Drop the hashes of those blocks that have one, each with its row; the rows that went.

        Nobody waits any more for what they were to hold.
        """
        gone = self._rows_with(size_class, blocks)
        hashes, depths = self._hashes[size_class], self._depths[size_class]
        for rows in gone:
            self._index.remove(rows)
            self._unwritten[rows.kind].difference_update(rows.blocks)
            for block in rows.blocks:
                hashes[block] = None
            self.priorities.forget(size_class, rows.blocks)
            if depths:
                for block in rows.blocks:
                    depths.pop(block, None)
        return gone

    def _rows_with(self, size_class: ClassId, blocks: Iterable[BlockId]) -> list[Rows]:
        """The rows that blocks belong to, by kind, each once."""
        kinds, hashes = self._kinds_of_class[size_class], self._hashes[size_class]
        if len(kinds) == 1 and len(self._plan.kinds[kinds[0]]) == 1:
            # Mostly a row is a block, and there is nothing to look up.
            named = {one: name for one in blocks if (name := hashes[one]) is not None}
            return [Rows(kinds[0], list(named.values()), list(named))] if named else []
        found = {}
        for block in blocks:
            commitment = self.commitment(size_class, block)
            if commitment is not None:
                found[commitment.kind, commitment.row] = commitment.block_hash
        return [
            Rows(
                kind,
                [block_hash for (owner, _), block_hash in found.items() if owner == kind],
                [block for owner, row in found if owner == kind for block in row],
            )
            for kind in dict.fromkeys(owner for owner, _ in found)
        ]

    def move(self, size_class: ClassId, source: BlockId, target: BlockId) -> None:
        """What a block holds is in another one now."""
        commitment = self.commitment(size_class, source)
        if commitment is None:
            return
        self._index.rename(commitment, source, target)
        unwritten = self._unwritten[commitment.kind]
        if source in unwritten:
            unwritten.remove(source)
            unwritten.add(target)
        hashes, depths = self._hashes[size_class], self._depths[size_class]
        hashes[target], hashes[source] = hashes[source], None
        self.priorities.move(size_class, source, target)
        if source in depths:
            depths[target] = depths.pop(source)
