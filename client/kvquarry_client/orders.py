"""What the workers are told with a step's plan: blocks to move and to zero, by their last ids."""

from collections.abc import Iterable, Sequence

from kvquarry_client.renames import Renames
from kvquarry_core.ids import BlockId, ClassId, GroupId
from kvquarry_core.plan import Plan
from kvquarry_core.relocation import Move


class WorkerOrders:
    """Gathered while a step is planned, taken when it is sent."""

    def __init__(self, plan: Plan) -> None:
        self._to_zero: list[list[BlockId]] = [[] for _ in plan.classes]
        self._moves: list[Move] = []
        self._told: list[tuple[list[BlockId], ...]] = []

    def zero(self, size_class: ClassId, blocks: Iterable[BlockId]) -> None:
        """Blocks were spent whose bytes were last of another class."""
        self._to_zero[size_class] += blocks

    def tell(self, block_ids: tuple[list[BlockId], ...]) -> None:
        """Ids go into the plan: those that move until it is sent are renamed there."""
        self._told.append(block_ids)

    def rename(self, renames: Renames, moves: Sequence[Move]) -> None:
        """Blocks moved."""
        for block_ids in self._told:
            for group, blocks in enumerate(block_ids):
                renames.apply(GroupId(group), blocks)
        for move in moves:
            self._rename_to_zero(move)
        self._moves += moves

    def take_blocks_to_zero(self) -> list[list[BlockId]]:
        """By size class, what is to be zeroed since the last call."""
        taken, self._to_zero = self._to_zero, [[] for _ in self._to_zero]
        return taken

    def take_moves(self) -> list[Move]:
        """The moves since the last call, in order."""
        taken, self._moves = self._moves, []
        self._told.clear()
        return taken

    def _rename_to_zero(self, move: Move) -> None:
        """Copies run before zeroing: what moved in stays, what was to be zeroed is so elsewhere."""
        to_zero = self._to_zero[move.size_class]
        if move.target in to_zero:
            to_zero.remove(move.target)
        if move.source in to_zero:
            to_zero[to_zero.index(move.source)] = move.target
