"""Forgets the margin of drafts: hits go as far as a match, whatever comes after it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kvquarry_vllm import config
from kvquarry_vllm.gates import replacements
from kvquarry_vllm.grouping import group_specs


def _without_margin(_vllm_config: Any, groups: Sequence[Any]) -> Any:
    return group_specs(groups)


config.pool_groups = _without_margin
replacements.pool_groups = _without_margin
