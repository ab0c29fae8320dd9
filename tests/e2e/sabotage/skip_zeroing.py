"""Drops the list of new attention blocks that the worker is to zero before it writes to them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from vllm.v1.worker.gpu_model_runner import GPUModelRunner

_update_states = GPUModelRunner._update_states


def _update_without_zeroing(runner: Any, scheduler_output: Any) -> Any:
    return _update_states(runner, replace(scheduler_output, new_block_ids_to_zero=None))


GPUModelRunner._update_states = _update_without_zeroing
