"""Chunks of a prompt end where a retention wants a checkpoint.

A state is there only where a chunk ended. vLLM's scheduler decides where that is by the prompt's
end, by junctions and by what is left of a step's tokens; its ``prefix_cache_retention_interval``
has no part in it, and only picks from the states that came of it.
"""

from collections.abc import Callable
from typing import Any

from vllm.v1.request import Request

from kvquarry_core.retention import ChunkEnding
from kvquarry_vllm.requests import landmarks_of

#: ``Scheduler._mamba_block_aligned_split``, bound to its scheduler.
Split = Callable[[Request, int, int, int], int]


def end_chunks_where_wanted(scheduler: Any) -> None:
    """Let a scheduler over a pool of ours end chunks where the pool's retention says.

    Where that says nothing, nothing is changed: most steps ask for every request.
    """
    checkpoints = scheduler.kv_cache_manager.checkpoints
    if checkpoints is not None and isinstance(checkpoints.retention, ChunkEnding):
        scheduler._mamba_block_aligned_split = ending_where_wanted(
            scheduler._mamba_block_aligned_split,
            checkpoints.retention,
            checkpoints.alignment_tokens,
        )


def ending_where_wanted(split: Split, retention: ChunkEnding, alignment_tokens: int) -> Split:
    """A split that ends chunks no later than ``split``, and earlier where a retention says so."""

    def _mamba_block_aligned_split(
        request: Request,
        num_new_tokens: int,
        num_new_local_computed_tokens: int = 0,
        num_external_computed_tokens: int = 0,
    ) -> int:
        num_tokens = split(
            request, num_new_tokens, num_new_local_computed_tokens, num_external_computed_tokens
        )
        start = (
            request.num_computed_tokens
            + num_new_local_computed_tokens
            + num_external_computed_tokens
        )
        # Decode passes every boundary, and rows of drafts must not be cut.
        if start >= max(request.num_prompt_tokens, request.num_tokens - 1):
            return num_tokens
        first = (start // alignment_tokens + 1) * alignment_tokens
        lengths = range(first, start + num_tokens, alignment_tokens)
        landmarks = landmarks_of(request).aligned(alignment_tokens)
        end = retention.first_end(lengths, landmarks)
        return num_tokens if end is None else end - start

    return _mamba_block_aligned_split
