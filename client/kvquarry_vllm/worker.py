"""A worker tells the pool's owner which tensors it built, before it gets any block id."""

from collections.abc import Iterable, Sequence
from typing import Any

import torch

from kvquarry_client.errors import ClientError
from kvquarry_client.kernel_blocks import KernelBlocks
from kvquarry_client.registration import WorkerMemory, register_worker
from kvquarry_client.target import parse_target
from kvquarry_client.views import LayerTensors, layer_view, views_digest
from kvquarry_core.errors import UsageError
from kvquarry_core.ids import GroupId
from kvquarry_vllm.config import MixedKVCacheConfig
from kvquarry_vllm.drafts import has_draft_layers
from kvquarry_vllm.settings import Settings


class WorkerRefused(RuntimeError):
    """This worker's tensors do not fit the pool; the message names what differs."""


def register_built(settings: Settings, worker: Any, config: MixedKVCacheConfig) -> None:
    """In a worker's process: register what vLLM has bound to its layers.

    Raises:
        WorkerRefused: The pool's owner refused, or did not answer, or drafts would go astray.
    """
    _register(settings, config, memory_of(worker, config))


def register_through(
    settings: Settings, executor: Any, configs: Sequence[MixedKVCacheConfig]
) -> None:
    """In the scheduler's process: ask the workers what they built, and register it here.

    For ``inproc:``, whose core no other process can reach.

    Raises:
        WorkerRefused: The pool's owner refused.
    """
    for memory in executor.collective_rpc(memory_of, args=(configs[0],)):
        _register(settings, configs[0], memory)


def memory_of(worker: Any, config: MixedKVCacheConfig) -> WorkerMemory:
    """What a worker's layers really hold: read off the tensors, not off the plan.

    Raises:
        WorkerRefused: Its model runner is none that asks for kernel blocks, or drafts would go
            astray.
    """
    layers = _bound_tensors(worker, config)
    kernel_blocks = _kernel_blocks(worker)
    _check_slots_of_drafts(worker, kernel_blocks)
    first = next(iter(layers.values()))[0]
    return WorkerMemory(
        rank=worker.rank,
        num_workers=worker.parallel_config.world_size,
        device=str(worker.device),
        buffer_bytes=first.untyped_storage().nbytes(),
        views=tuple(
            layer_view(name, group, tensors, kernel_blocks[group])
            for name, tensors in layers.items()
            for group in (GroupId(config.group_of_layer(name)),)
        ),
        digest=views_digest(layers),
    )


def _register(settings: Settings, config: MixedKVCacheConfig, memory: WorkerMemory) -> None:
    assert config.target is not None
    assert config.pool_id is not None
    assert config.incarnation is not None, "the pool was not opened before the tensors were built"
    try:
        register_worker(
            parse_target(config.target),
            pool_id=config.pool_id,
            incarnation=config.incarnation,
            memory=memory,
            timeout_s=settings.connect_timeout_s,
        )
    except (ClientError, UsageError) as error:
        raise WorkerRefused(
            f"worker {memory.rank} of {memory.num_workers} on {memory.device} cannot use pool "
            f"{config.pool_id} at {config.target}: {error}"
        ) from error


def _bound_tensors(worker: Any, config: MixedKVCacheConfig) -> dict[str, LayerTensors]:
    """Each layer's tensors; layers that share another's cache have none of their own."""
    context = worker.vllm_config.compilation_config.static_forward_context
    names = [name for tensor in config.kv_cache_tensors for name in tensor.layers]
    return {name: _tensors(context[name].kv_cache) for name in names}


def _check_slots_of_drafts(worker: Any, kernel_blocks: Iterable[KernelBlocks | None]) -> None:
    """vLLM's first runner looks drafts' slots up as if kernels addressed whole blocks.

    Where they address less, what it writes lands in blocks of others.
    """
    if not has_draft_layers(worker.vllm_config) or worker.vllm_config.use_v2_model_runner:
        return
    for blocks in filter(None, kernel_blocks):
        if blocks.kernel_block_tokens != blocks.block_tokens:
            raise WorkerRefused(
                "kvquarry cannot work with --speculative-config and --block-size "
                f"{blocks.block_tokens} here: attention kernels address "
                f"{blocks.kernel_block_tokens} tokens, and drafts would be written into blocks of "
                f"others. Set --block-size {blocks.kernel_block_tokens}, or unset KVQUARRY_TARGET "
                "to run stock vLLM."
            )


def _tensors(kv_cache: Any) -> LayerTensors:
    return (kv_cache,) if isinstance(kv_cache, torch.Tensor) else tuple(kv_cache)


def _kernel_blocks(worker: Any) -> tuple[KernelBlocks | None, ...]:
    """What dimension 0 of each group's tensors counts: the runner cut them by this selection."""
    selected = getattr(worker.model_runner.kv_cache_config, "kernel_blocks", None)
    if selected is None:
        raise WorkerRefused(
            f"{type(worker.model_runner).__name__} built its tensors without asking for kernel "
            "blocks: kvquarry does not know this model runner. Unset KVQUARRY_TARGET to run stock "
            "vLLM."
        )
    blocks: tuple[KernelBlocks | None, ...] = selected
    return blocks
