"""Forces moves at every step, and renames the blocks without copying their bytes."""

from __future__ import annotations

from typing import Any

from kvquarry_vllm.zeroing import ClassZeroer
from tests.e2e.sabotage import force_moves


def _move_nothing(zeroer: Any, moves: Any) -> None:
    pass


force_moves.EVERY_STEPS = 1
ClassZeroer.move = _move_nothing
