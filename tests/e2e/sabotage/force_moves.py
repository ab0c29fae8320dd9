"""Moves as many blocks as can move at every tenth step, for no reason at all.

Not a fault by itself: content is where the tables say, before and after. The pool is ``inproc:``.
"""

from __future__ import annotations

from typing import Any

from kvquarry_client.shadow import Shadow
from kvquarry_core.evacuation import Evacuation
from kvquarry_core.ids import ClassId, SlabId

EVERY_STEPS = 10

_begin_step = Shadow.begin_step
_num_steps = 0


def _begin_step_and_move(shadow: Any) -> None:
    global _num_steps  # noqa: PLW0603
    _begin_step(shadow)
    _num_steps += 1
    if _num_steps % EVERY_STEPS == 0:
        shadow._rename(_moves(shadow.ledger.pool))


def _moves(pool: Any) -> Any:
    """Of every class, as many slabs are cleared as its holes can take in."""
    nothing = [0] * len(pool.plan.classes)
    evacuator, room = pool.evacuator, pool.store.room()
    candidates = [
        one
        for index in range(len(pool.plan.classes))
        for one in evacuator._candidates(ClassId(index), room, nothing, {SlabId(0)})
    ]
    evacuator.clear(Evacuation(candidates, nothing))
    return evacuator.take_moves()


Shadow.begin_step = _begin_step_and_move
