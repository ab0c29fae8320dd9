"""Zeroes new blocks in a worker, class by class.

vLLM sends one flat list of ids and zeroes them in every attention layer, which would hit blocks of
another request where attention has pages of two sizes. Here a step says which class each id is of.

A block is zeroed when its bytes were last of another class: a kernel loads whole blocks, and where
it has not written yet, a state's bytes or another format's may be no number.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from vllm.utils.torch_utils import async_tensor_h2d

from kvquarry_client.views import whole_blocks
from kvquarry_core.ids import BlockId, ClassId
from kvquarry_core.relocation import Move
from kvquarry_vllm.config import MixedKVCacheConfig


@dataclass(frozen=True, slots=True)
class MemoryOrders:
    """What a step does to memory before it computes: first it moves blocks, then it zeroes some.

    Stands where vLLM's ``SchedulerOutput`` has one list of ids to zero. Pickled by reference, so
    this module must be importable in every worker.

    Attributes:
        by_class: Ids of blocks to zero, by :data:`ClassId`.
        moves: Blocks to move, in order.
    """

    by_class: tuple[tuple[BlockId, ...], ...]
    moves: tuple[Move, ...] = ()

    def __bool__(self) -> bool:
        """Whether there is anything to do; vLLM sends nothing otherwise."""
        return bool(self.moves) or any(self.by_class)


class ClassZeroer:
    """Stands in for vLLM's ``KVBlockZeroer``: one view per class instead of one number of blocks.

    The views are made from the plan the tensors were made from, so that no count of blocks is
    derived twice.
    """

    def __init__(self, config: MixedKVCacheConfig, buffer: torch.Tensor) -> None:
        self._blocks = [
            whole_blocks(config.plan, buffer, ClassId(index), config.arrangement)
            for index in range(len(config.plan.classes))
        ]

    def zero_block_ids(self, blocks: MemoryOrders | list[int]) -> None:
        """Zero blocks in all their layers.

        Args:
            blocks: By class. vLLM's own warm-up names the null block alone, as a list: that is
                zeroed in every class.
        """
        by_class: Sequence[Sequence[int]]
        by_class = blocks.by_class if isinstance(blocks, MemoryOrders) else [blocks] * len(self)
        for view, ids in zip(self._blocks, by_class, strict=True):
            if ids:
                _zero(view, ids)

    def move(self, moves: Iterable[Move]) -> None:
        """Copy blocks with all their layers, one after the other: a source may be taken again."""
        for move in moves:
            view = self._blocks[move.size_class]
            view[move.target].copy_(view[move.source])

    def warmup(self, num_kv_blocks: int) -> None:
        """See ``KVBlockZeroer.warmup``; the null block means nothing to anybody."""
        self.zero_block_ids([0])

    def __len__(self) -> int:
        """Size classes."""
        return len(self._blocks)


def zeroer_of(runner: Any) -> ClassZeroer:
    """For a model runner whose layers are bound to a pool of ours."""
    config: MixedKVCacheConfig = runner.kv_cache_config
    context = runner.compilation_config.static_forward_context
    bound = context[config.kv_cache_tensors[0].layers[0]].kv_cache
    first = bound if isinstance(bound, torch.Tensor) else bound[0]
    storage = first.untyped_storage()
    buffer = torch.empty(0, dtype=torch.int8, device=first.device).set_(storage)
    return ClassZeroer(config, buffer)


def _zero(view: torch.Tensor, ids: Sequence[int]) -> None:
    if view.device.type == "cpu":
        # A slice at a time: on a CPU an indexed fill costs a hundred times that.
        for block in ids:
            view[block].zero_()
        return
    view.index_fill_(0, async_tensor_h2d(list(ids), device=view.device, dtype=torch.int64), 0)
