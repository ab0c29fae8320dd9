"""vLLM's picture of a mixed-size pool: travels from the scheduler's process to all workers."""

import copy
from dataclasses import dataclass, field
from typing import Any

from vllm.v1.kv_cache_interface import KVCacheConfig, KVCacheGroupSpec, KVCacheTensor

from kvquarry_client.kernel_blocks import KernelBlocks
from kvquarry_client.scheduling import DEFAULT_AHEAD_TOKENS
from kvquarry_core.ids import GroupId
from kvquarry_core.plan import Plan, make_plan
from kvquarry_core.policies import PolicyNames
from kvquarry_core.worker_layout import Arrangement
from kvquarry_vllm import capacity
from kvquarry_vllm.drafts import pool_groups
from kvquarry_vllm.geometry import arrangement_of, cache_tensors


@dataclass
class MixedKVCacheConfig(KVCacheConfig):
    """A pool of blocks of several sizes.

    ``num_blocks`` is the number of attention blocks, because that is what vLLM's workers use it
    for. Pickled by reference, so this module must be importable in every worker.

    Attributes:
        plan: How the memory is cut.
        arrangement: Whether a layer's blocks lie together, or a block's layers.
        memory_bytes: What the plan was made from; ``plan.pool_bytes`` of it are used.
        reserve_full_sequence: Admit a request only when all of it fits.
        max_num_batched_tokens: Tokens of one step.
        num_lookahead_tokens: Attention slots beyond them, for draft tokens.
        max_in_flight_tokens: Tokens of all steps that overlap.
        ahead_tokens: Blocks are asked for so many tokens before they are needed.
        moves_blocks: Whether the workers move blocks when the pool's owner says so.
        retention: Which checkpoints stay, by name; "engine" for what
            ``prefix_cache_retention_interval`` says.
        check_steps: Debugging: every so many steps both sides compare their books; 0 for never.
        watermark: Share of the blocks that stay free when a request is admitted.
        target: Where the accounting is, as in ``KVQUARRY_TARGET``; None until the pool is open.
        engine: The engine's name there.
        pool_id: The pool there. A pool for profiling is never opened.
        incarnation: The engine's how-manieth life this is.
        kernel_blocks: How each group's kernels address its blocks, None for states; None until
            this worker's model runner asked (:mod:`kvquarry_vllm.kernel_blocks`).
    """

    plan: Plan = field(kw_only=True)
    arrangement: Arrangement = field(kw_only=True)
    memory_bytes: int = field(kw_only=True)
    reserve_full_sequence: bool = field(kw_only=True)
    max_num_batched_tokens: int = field(kw_only=True)
    num_lookahead_tokens: int = field(kw_only=True)
    max_in_flight_tokens: int = field(kw_only=True)
    watermark: float = field(kw_only=True)
    ahead_tokens: int = field(default=DEFAULT_AHEAD_TOKENS, kw_only=True)
    moves_blocks: bool = field(default=False, kw_only=True)
    retention: str = field(default=PolicyNames().retention, kw_only=True)
    check_steps: int = field(default=0, kw_only=True)
    target: str | None = field(default=None, kw_only=True)
    engine: str | None = field(default=None, kw_only=True)
    pool_id: str | None = field(default=None, kw_only=True)
    incarnation: int | None = field(default=None, kw_only=True)
    kernel_blocks: tuple[KernelBlocks | None, ...] | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        """Two counts of the same blocks would let ids and tensors part."""
        counted = _num_attention_blocks(self.plan)
        assert self.num_blocks == counted, f"{self.num_blocks} blocks of a plan with {counted}"

    def num_blocks_of(self, tensor: KVCacheTensor) -> int:
        """Blocks of the size class that a group's tensors show."""
        group = self.group_of_layer(tensor.layers[0])
        return self.plan.classes[self.plan.class_of_group[group]].num_blocks

    def group_of_layer(self, layer: str) -> GroupId:
        """The group whose block table a layer uses."""
        return next(
            GroupId(index)
            for index, group in enumerate(self.kv_cache_groups)
            if layer in group.layer_names
        )

    @property
    def needs_kv_cache_zeroing(self) -> bool:
        """Whether a block's bytes may last have been of another class, and mean no number now."""
        return len(self.plan.classes) > 1

    @property
    def num_blocks_of_smallest_class(self) -> int:
        """Ids below this exist in every size class."""
        return min(size_class.num_blocks for size_class in self.plan.classes)

    def with_common_ids_only(self) -> "MixedKVCacheConfig":
        """The same pool, counted as if all of it had no more ids than the smallest class.

        For who hands ids to all groups alike. The tensors are told apart as before.
        """
        counted = copy.copy(self)
        counted.num_blocks = self.num_blocks_of_smallest_class
        return counted


def mixed_config(
    vllm_config: Any, groups: list[KVCacheGroupSpec], memory_bytes: int
) -> MixedKVCacheConfig:
    """The configuration of a pool of ``memory_bytes`` for groups in scope, not opened yet.

    Memory too small for any plan (only profiling asks for that) is grown to the least that has one.
    """
    specs = pool_groups(vllm_config, groups)
    memory_bytes = capacity.enough_memory(specs, memory_bytes)
    plan = make_plan(specs, memory_bytes)
    layout = vllm_config.cache_config.get_resolved_kv_cache_layout()
    scheduler = vllm_config.scheduler_config
    cache = vllm_config.cache_config
    return MixedKVCacheConfig(
        num_blocks=_num_attention_blocks(plan),
        kv_cache_tensors=cache_tensors(plan, groups, layout),
        kv_cache_groups=groups,
        prefix_cache_retention_interval=cache.prefix_cache_retention_interval,
        plan=plan,
        arrangement=arrangement_of(layout),
        memory_bytes=memory_bytes,
        reserve_full_sequence=scheduler.scheduler_reserve_full_isl,
        max_num_batched_tokens=scheduler.max_num_batched_tokens,
        num_lookahead_tokens=vllm_config.num_lookahead_tokens,
        max_in_flight_tokens=vllm_config.max_in_flight_tokens,
        watermark=scheduler.watermark,
    )


def _num_attention_blocks(plan: Plan) -> int:
    return plan.classes[plan.class_of_group[capacity.counted_group(plan.groups)]].num_blocks
