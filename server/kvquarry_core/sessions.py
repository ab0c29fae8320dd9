"""Checkpoints that their session outgrew.

A conversation's next turn resumes at the last turn's checkpoint and leaves a deeper one, where the
turn after it resumes. If nobody but that one turn ever used the older one, nobody is likely to::

    turn 1   |--------------- s1
    turn 2   |================|-------- s2            outgrows s1
    turn 3   |=========================|------ s3     outgrows s2

Where prompts of several sessions part, a checkpoint is hit more than once, and stays.
"""

from collections.abc import Iterable

from kvquarry_core.ids import BlockId, ClassId


class Sessions:
    """Who hit which checkpoints, and which of those in use are outgrown; by size class."""

    def __init__(self, num_classes: int) -> None:
        #: How often a checkpoint was hit since it was committed, by the first block of its row.
        self.num_hits: list[dict[BlockId, int]] = [{} for _ in range(num_classes)]
        #: Blocks in use that go first as soon as they are not.
        self.outgrown: list[set[BlockId]] = [set() for _ in range(num_classes)]

    def note_hit(self, size_class: ClassId, row: tuple[BlockId, ...]) -> None:
        """Somebody resumes at a checkpoint: whatever was thought of it, it is of use."""
        hits = self.num_hits[size_class]
        hits[row[0]] = hits.get(row[0], 0) + 1
        self.outgrown[size_class].difference_update(row)

    def was_hit_once(self, size_class: ClassId, first: BlockId) -> bool:
        """Whether a checkpoint has served one request alone."""
        return self.num_hits[size_class].get(first) == 1

    def forget(self, size_class: ClassId, blocks: Iterable[BlockId]) -> None:
        """Blocks hold no checkpoint any more."""
        hits, outgrown = self.num_hits[size_class], self.outgrown[size_class]
        if hits or outgrown:
            for block in blocks:
                hits.pop(block, None)
                outgrown.discard(block)

    def rename(self, size_class: ClassId, source: BlockId, target: BlockId) -> None:
        """A checkpoint is in another block now."""
        hits, outgrown = self.num_hits[size_class], self.outgrown[size_class]
        if source in hits:
            hits[target] = hits.pop(source)
        if source in outgrown:
            outgrown.remove(source)
            outgrown.add(target)
