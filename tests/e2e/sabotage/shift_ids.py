"""Gives the worker each attention block id one too high, as an off-by-one in a view would."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from vllm.v1.kv_cache_interface import AttentionSpec
from vllm.v1.worker.gpu_model_runner import GPUModelRunner

BlockIds = tuple[list[int], ...]

_update_states = GPUModelRunner._update_states


def _update_shifted(runner: Any, scheduler_output: Any) -> Any:
    cached = scheduler_output.scheduled_cached_reqs
    shifted = replace(
        scheduler_output,
        scheduled_new_reqs=[
            replace(request, block_ids=_shifted(runner, request.block_ids))
            for request in scheduler_output.scheduled_new_reqs
        ],
        scheduled_cached_reqs=replace(
            cached,
            new_block_ids=[ids and _shifted(runner, ids) for ids in cached.new_block_ids],
        ),
    )
    return _update_states(runner, shifted)


def _shifted(runner: Any, block_ids: BlockIds) -> BlockIds:
    """The last id stays as it is: beyond the pool's end there is no memory to damage."""
    last = runner.kv_cache_config.num_blocks - 1
    groups = runner.kv_cache_config.kv_cache_groups
    return tuple(
        [min(block_id + 1, last) for block_id in ids]
        if isinstance(group.kv_cache_spec, AttentionSpec)
        else ids
        for group, ids in zip(groups, block_ids, strict=True)
    )


GPUModelRunner._update_states = _update_shifted
