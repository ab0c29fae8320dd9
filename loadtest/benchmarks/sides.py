"""Stock vLLM's manager and ours for one model's shape, called alike."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

import torch
from vllm.v1.core.kv_cache_manager import KVCacheManager
from vllm.v1.kv_cache_interface import (
    FullAttentionSpec,
    KVCacheConfig,
    KVCacheGroupSpec,
    MambaSpec,
)

from kvquarry_client.engine import ledger_of, open_pool
from kvquarry_client.registration import WorkerMemory, register_worker
from kvquarry_client.target import parse_target
from kvquarry_core.worker_layout import Arrangement, planned_views
from kvquarry_vllm.config import MixedKVCacheConfig
from kvquarry_vllm.grouping import group_specs
from kvquarry_vllm.manager import QuarryKVCacheManager, make_kv_cache_manager

#: Accounting alone: nothing of it is really there.
POOL_BYTES = 64 << 30
#: vLLM's default for a server: the longest chunk of one step.
CHUNK_TOKENS = 8192
BLOCK_TOKENS = 16
_MAX_MODEL_LEN = 40_000
_CONNECT_TIMEOUT_S = 20.0

# Qwen3.6-35B-A3B on one device: 30 layers of state, 10 of attention.
_STATE_BYTES = 2_146_304
_PAGE_BYTES_PER_TOKEN = 2048
_NUM_LAYERS = 10
_NUM_STATE_GROUPS = 3
#: The first multiple of 16 tokens whose page is not smaller than a state: what stock makes of 16.
INFLATED_BLOCK_TOKENS = 1056

_KvManager = KVCacheManager | QuarryKVCacheManager


class Shape(Enum):
    """Which layers a model has."""

    HYBRID = "hybrid"
    ATTENTION = "attention"


@dataclass(frozen=True, slots=True)
class Side:
    """One of those compared.

    Attributes:
        name: ``stock``, ``inproc`` or ``unix``.
        manager: What a scheduler would call.
        block_tokens: Tokens of its blocks, and of its hashes.
        has_states: Whether chunks must end on block boundaries, as states are kept there only.
        num_exchanges: Times its ledger waited for an answer until now.
    """

    name: str
    manager: _KvManager
    block_tokens: int
    has_states: bool
    num_exchanges: Callable[[], int]

    @property
    def is_remote(self) -> bool:
        """Whether a service does part of the work."""
        return self.name == "unix"


def stock_side(shape: Shape) -> Side:
    """vLLM's own manager, with the block size vLLM would give it."""
    is_hybrid = shape is Shape.HYBRID
    block_tokens = INFLATED_BLOCK_TOKENS if is_hybrid else BLOCK_TOKENS
    padded_bytes = INFLATED_BLOCK_TOKENS * _PAGE_BYTES_PER_TOKEN if is_hybrid else None
    groups = _groups(shape, block_tokens, padded_bytes)
    block_bytes = groups[-1].kv_cache_spec.page_size_bytes * _NUM_LAYERS
    config = KVCacheConfig(
        num_blocks=POOL_BYTES // block_bytes,
        kv_cache_tensors=[],
        kv_cache_groups=groups,
        prefix_cache_retention_interval=0,
    )
    manager = KVCacheManager(
        config,
        max_model_len=_MAX_MODEL_LEN,
        scheduler_block_size=block_tokens,
        hash_block_size=block_tokens,
        max_in_flight_tokens=CHUNK_TOKENS,
        enable_caching=True,
    )
    return Side("stock", manager, block_tokens, is_hybrid, lambda: 0)


def quarry_side(shape: Shape, target: str) -> Side:
    """Ours, with its pool opened at a target and its one worker registered."""
    groups = _groups(shape, BLOCK_TOKENS, None)
    name = target.partition(":")[0]
    opened = open_pool(
        target,
        engine=f"hot-path-{shape.value}",
        groups=group_specs(groups),
        pool_bytes=POOL_BYTES,
        num_workers=1,
        model="made up",
        connect_timeout_s=_CONNECT_TIMEOUT_S,
        hears_evictions=False,
    )
    plan = opened.plan
    views = tuple(planned_views(plan))
    register_worker(
        parse_target(target),
        pool_id=opened.pool_id,
        incarnation=opened.incarnation,
        memory=WorkerMemory(0, 1, "none", plan.pool_bytes, views, b"no tensors"),
        timeout_s=_CONNECT_TIMEOUT_S,
    )
    config = MixedKVCacheConfig(
        num_blocks=plan.classes[plan.class_of_group[-1]].num_blocks,
        kv_cache_tensors=[],
        kv_cache_groups=groups,
        prefix_cache_retention_interval=0,
        plan=plan,
        arrangement=Arrangement.LAYER_OUTERMOST,
        memory_bytes=POOL_BYTES,
        reserve_full_sequence=True,
        max_num_batched_tokens=CHUNK_TOKENS,
        max_in_flight_tokens=CHUNK_TOKENS,
        num_lookahead_tokens=0,
        ahead_tokens=256,
        watermark=0.0,
        target=target,
        pool_id=opened.pool_id,
        incarnation=opened.incarnation,
    )
    manager = make_kv_cache_manager(config, _MAX_MODEL_LEN, scheduler_block_size=BLOCK_TOKENS)
    ledger = ledger_of(opened.pool_id)
    return Side(
        name, manager, BLOCK_TOKENS, shape is Shape.HYBRID, lambda: int(ledger.num_exchanges)
    )


def _groups(shape: Shape, block_tokens: int, padded_bytes: int | None) -> list[KVCacheGroupSpec]:
    attention = FullAttentionSpec(
        block_size=block_tokens, num_kv_heads=2, head_size=256, dtype=torch.bfloat16
    )
    attention_group = KVCacheGroupSpec([f"attention.{i}" for i in range(_NUM_LAYERS)], attention)
    if shape is Shape.ATTENTION:
        return [attention_group]
    state = MambaSpec(
        block_size=block_tokens,
        shapes=((_STATE_BYTES // 4,),),
        dtypes=(torch.float32,),
        page_size_padded=padded_bytes,
        mamba_cache_mode="align",
    )
    states = [
        KVCacheGroupSpec([f"state.{group}.{i}" for i in range(_NUM_LAYERS)], state)
        for group in range(_NUM_STATE_GROUPS)
    ]
    return [*states, attention_group]
