"""Fakes of vLLM's configuration and layers: as much of them as planning reads."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

import torch
from transformers import PretrainedConfig
from vllm.config import SpeculativeConfig
from vllm.v1.attention.backend import AttentionCGSupport
from vllm.v1.attention.backend import MultipleOf as StockMultipleOf
from vllm.v1.kv_cache_interface import (
    FullAttentionSpec,
    KVCacheGroupSpec,
    KVCacheSpec,
    MambaSpec,
    MLAAttentionSpec,
)
from vllm.v1.kv_cache_layout import KVCacheLayout
from vllm.v1.worker.utils import AttentionGroup

from kvquarry_client.kernel_blocks import MultipleOf, Supported
from kvquarry_vllm.config import MixedKVCacheConfig, mixed_config
from kvquarry_vllm.grouping import mixed_groups
from kvquarry_vllm.kernel_blocks import kernel_block_sizes

BLOCK_TOKENS = 64
PAGE_BYTES = BLOCK_TOKENS * 512
STATE_BYTES = 3 * 512 * 2 + 4 * 64 * 64 * 4
LAYOUTS = KVCacheLayout


def vllm_config(**changes: Any) -> SimpleNamespace:
    """A configuration in which nothing stands in kvquarry's way; `changes` are `section__name`."""
    config = SimpleNamespace(
        cache_config=_cache_config(),
        parallel_config=_parallel_config(),
        model_config=SimpleNamespace(
            is_hybrid=True,
            is_encoder_decoder=False,
            max_model_len=1024,
            model="tiny",
            hf_config=PretrainedConfig(),
        ),
        scheduler_config=SimpleNamespace(
            disable_hybrid_kv_cache_manager=False,
            scheduler_reserve_full_isl=True,
            max_num_batched_tokens=2048,
            watermark=0.0,
        ),
        attention_config=SimpleNamespace(hisparse_config=None),
        compilation_config=SimpleNamespace(static_forward_context={}),
        speculative_config=None,
        kv_transfer_config=None,
        num_lookahead_tokens=0,
        kv_events_config=None,
        num_prefill_lookahead_tokens=1,
        max_in_flight_tokens=2048,
    )
    for path, value in changes.items():
        *sections, name = path.split("__")
        holder: Any = config
        for section in sections:
            holder = getattr(holder, section)
        setattr(holder, name, value)
    return config


def drafting(method: str, **changes: Any) -> dict[str, Any]:
    """What speculative decoding by a method changes in a configuration; vLLM's own answers."""
    speculative = object.__new__(SpeculativeConfig)
    values = {
        "method": method,
        "parallel_drafting": False,
        "disable_eagle_block_drop": False,
        "draft_model_config": None,
    }
    vars(speculative).update(values | changes)
    return {"speculative_config": speculative, "num_lookahead_tokens": 3}


def _cache_config() -> SimpleNamespace:
    return SimpleNamespace(
        block_size=BLOCK_TOKENS,
        mamba_block_size=BLOCK_TOKENS,
        mamba_page_size_padded=None,
        mamba_cache_mode="align",
        prefix_match_unit=None,
        enable_mamba_shared_prefix_checkpoint=False,
        kv_cache_dtype_skip_layers=[],
        use_replayssm=False,
        num_gpu_blocks_override=None,
        prefix_cache_retention_interval=0,
        get_resolved_kv_cache_layout=lambda: KVCacheLayout.LBHNC,
    )


def _parallel_config() -> SimpleNamespace:
    return SimpleNamespace(
        data_parallel_index=0,
        data_parallel_size=1,
        decode_context_parallel_size=1,
        prefill_context_parallel_size=1,
        pipeline_parallel_size=1,
        tensor_parallel_size=1,
        distributed_executor_backend=None,
        enable_elastic_ep=False,
        world_size=1,
    )


def attention(**changes: Any) -> FullAttentionSpec:
    """Full attention with pages of `PAGE_BYTES`."""
    values = {
        "block_size": BLOCK_TOKENS,
        "num_kv_heads": 2,
        "head_size": 64,
        "dtype": torch.bfloat16,
        "dcp_sharded": True,
    }
    return FullAttentionSpec(**(values | changes))


def latent(**changes: Any) -> MLAAttentionSpec:
    """Latent attention: one vector per token, which serves as key and value."""
    values = {
        "block_size": BLOCK_TOKENS,
        "num_kv_heads": 1,
        "head_size": 576,
        "dtype": torch.bfloat16,
    }
    return MLAAttentionSpec(**(values | changes))


def state(**changes: Any) -> MambaSpec:
    """A recurrent state of `STATE_BYTES` with a convolution's tail in front of it."""
    values = {
        "block_size": BLOCK_TOKENS,
        "shapes": ((3, 512), (4, 64, 64)),
        "dtypes": (torch.bfloat16, torch.float32),
        "mamba_cache_mode": "align",
    }
    return MambaSpec(**(values | changes))


def hybrid_layers() -> dict[str, KVCacheSpec]:
    """Eight layers, every fourth one attention, as Qwen3-Next has them."""
    return {f"layers.{index}": attention() if index % 4 == 3 else state() for index in range(8)}


def attention_layers() -> dict[str, KVCacheSpec]:
    """Four layers of plain attention."""
    return {f"layers.{index}": attention() for index in range(4)}


def groups_of(layers: dict[str, KVCacheSpec]) -> list[KVCacheGroupSpec]:
    """The groups kvquarry makes of them on vLLM 0.32."""
    from vllm.v1.core.kv_cache_utils import _get_kv_cache_groups_uniform_page_size

    return mixed_groups(layers, _get_kv_cache_groups_uniform_page_size)


def pool_config(
    layers: dict[str, KVCacheSpec], memory_bytes: int = 12 << 20, **changes: Any
) -> MixedKVCacheConfig:
    """The configuration of a pool for these layers."""
    return mixed_config(vllm_config(**changes), groups_of(layers), memory_bytes)


def backend_taking(sizes: Supported) -> type:
    """An attention backend of vLLM's whose kernels take blocks of these sizes."""
    declared = [StockMultipleOf(s.base) if isinstance(s, MultipleOf) else s for s in sizes]

    class Backend:
        @staticmethod
        def get_name() -> str:
            return f"TAKES_{sizes}"

        @staticmethod
        def get_supported_kernel_block_sizes(_spec: KVCacheSpec | None = None) -> list[Any]:
            return declared

        @classmethod
        def full_cls_name(cls) -> tuple[str, str]:
            return cls.__module__, cls.get_name()

        @staticmethod
        def get_builder_cls() -> type:
            return _MetadataBuilder

    return Backend


class _MetadataBuilder:
    requires_block_table_width = False

    def __init__(self, spec: KVCacheSpec, *_: Any) -> None:
        self.spec = spec

    @staticmethod
    def get_cudagraph_support(*_: Any) -> AttentionCGSupport:
        return AttentionCGSupport.NEVER


def attention_groups(
    config: MixedKVCacheConfig, backends: Iterable[type]
) -> list[list[AttentionGroup]]:
    """What a runner makes of a pool's layers, all of them with each of these backends."""
    backends = list(backends)
    return [
        [AttentionGroup(one, group.layer_names, group.kv_cache_spec, index) for one in backends]
        for index, group in enumerate(config.kv_cache_groups)
    ]


def runner_with(config: MixedKVCacheConfig, declared: Iterable[Supported]) -> SimpleNamespace:
    """A model runner that knows its attention backends and asked how to cut the tensors."""
    held = copy.deepcopy(config)
    groups = attention_groups(held, map(backend_taking, declared))
    sizes = kernel_block_sizes(held, groups)
    return SimpleNamespace(kv_cache_config=held, attn_groups=groups, kernel_block_sizes=sizes)
