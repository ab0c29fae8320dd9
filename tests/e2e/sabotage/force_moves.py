"""Moves as many blocks as can move at every tenth step, for no reason at all.

Not a fault by itself: content is where the tables say, before and after. The pool is ``inproc:``.
"""

from __future__ import annotations

from typing import Any

from kvquarry_client.shadow import Shadow
from tests.scheduler.clearing import clear_all

EVERY_STEPS = 10

_begin_step = Shadow.begin_step
_num_steps = 0


def _begin_step_and_move(shadow: Any) -> None:
    global _num_steps  # noqa: PLW0603
    _begin_step(shadow)
    _num_steps += 1
    if _num_steps % EVERY_STEPS == 0:
        shadow._rename(clear_all(shadow.ledger.pool))


Shadow.begin_step = _begin_step_and_move
