"""Fills the whole pool with 0xFF before its first use: each bf16 and fp32 value is not a number.

Not a fault by itself. A pool must work whatever its bytes last were, and any read of a byte that
nobody wrote then shows in the output.
"""

from __future__ import annotations

from typing import Any

import torch
from vllm.v1.worker import gpu_model_runner

_allocate = gpu_model_runner.allocate_kv_cache


def _allocate_filled(*args: Any, **kwargs: Any) -> dict[str, torch.Tensor]:
    views = _allocate(*args, **kwargs)
    storage = next(iter(views.values())).untyped_storage()
    torch.empty(0, dtype=torch.uint8).set_(storage).fill_(0xFF)  # type: ignore[call-overload]
    return views


gpu_model_runner.allocate_kv_cache = _allocate_filled
