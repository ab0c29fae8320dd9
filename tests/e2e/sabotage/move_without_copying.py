"""Forces moves, and renames the blocks without copying their bytes."""

from __future__ import annotations

from typing import Any

from kvquarry_vllm.zeroing import ClassZeroer
from tests.e2e.sabotage import force_moves

__all__ = ["force_moves"]


def _move_nothing(zeroer: Any, moves: Any) -> None:
    pass


ClassZeroer.move = _move_nothing
