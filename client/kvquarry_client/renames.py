"""Blocks that the pool moved: other ids for the same content, wherever somebody knows them."""

from collections.abc import Iterable, Sequence

from kvquarry_core.ids import BlockId, GroupId
from kvquarry_core.plan import Plan
from kvquarry_core.relocation import Move


class Renames:
    """The new ids of moved blocks; moves that follow on each other count as one."""

    def __init__(self, plan: Plan, moves: Iterable[Move]) -> None:
        self._plan = plan
        self._targets: list[dict[BlockId, BlockId]] = [{} for _ in plan.classes]
        for move in moves:
            self._add(move)

    def __bool__(self) -> bool:
        """Whether any block has another id."""
        return any(self._targets)

    def of_group(self, group: GroupId, block: BlockId) -> BlockId:
        """What a group's block is called now."""
        return self._targets[self._plan.class_of_group[group]].get(block, block)

    def apply(self, group: GroupId, blocks: list[BlockId]) -> bool:
        """Rename a group's blocks in place; False where none of them moved."""
        targets = self._targets[self._plan.class_of_group[group]]
        if not targets or targets.keys().isdisjoint(blocks):
            return False
        blocks[:] = [targets.get(block, block) for block in blocks]
        return True

    def row(self, groups: Sequence[GroupId], row: Sequence[BlockId]) -> tuple[BlockId, ...]:
        """A row with the ids its blocks have now."""
        return tuple(self.of_group(group, block) for group, block in zip(groups, row, strict=True))

    def _add(self, move: Move) -> None:
        """An id may be left and taken again: what counts is where each block was first.

        What moved somewhere before was let go of there if something else moves there now.
        """
        targets = self._targets[move.size_class]
        for old in [old for old, now in targets.items() if now == move.target]:
            del targets[old]
        first = next((old for old, now in targets.items() if now == move.source), move.source)
        targets[first] = move.target
