"""Keeps the V2 runner's warm-up within the block ids that exist.

vLLM hands made-up requests the ids 1, 2, 3, ... in all groups and stops at ``num_blocks``, which
here counts attention blocks: there are far fewer states. A state written past the last one would
damage whatever lies behind the pool. Guarded by tests/vllm/test_warmup.py.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from kvquarry_vllm.config import MixedKVCacheConfig

#: A prefill and up to five decode steps (``_warmup_kernels``).
_MOST_WARM_UP_STEPS = 6


@contextmanager
def only_common_ids(runner: Any) -> Iterator[None]:
    """While this lasts, the runner sees a pool with no more blocks than the smallest size class.

    It sees a copy: the configuration itself, which others hold too, always counts the blocks that
    its tensors have.
    """
    config = getattr(runner, "kv_cache_config", None)
    if not isinstance(config, MixedKVCacheConfig):
        yield
        return
    runner.kv_cache_config = config.with_common_ids_only()
    try:
        yield
    finally:
        runner.kv_cache_config = config


def has_ids_for_one_request(runner: Any) -> bool:
    """Whether one made-up request stays within the ids that exist in every class.

    vLLM's kernel warm-up runs at least one request, whether its blocks exist or not.
    """
    config = getattr(runner, "kv_cache_config", None)
    if not isinstance(config, MixedKVCacheConfig):
        return True
    from vllm.v1.worker.gpu.warmup import _warmup_block_counter

    num_tokens = 1 + _MOST_WARM_UP_STEPS * runner.decode_query_len
    num_blocks = _warmup_block_counter(runner)
    specs = [group.kv_cache_spec for group in config.kv_cache_groups]
    last_id = sum(num_blocks(num_tokens, spec) for spec in specs)
    return last_id < config.num_blocks_of_smallest_class
