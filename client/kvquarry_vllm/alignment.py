"""Keeps the user's ``--block-size`` for hybrid models.

Stock vLLM blows the attention block up until its page is as large as a state, and pads the states
to match. Here both keep their own size; all a block must still do is suit the attention kernels.
"""

from collections.abc import Mapping
from typing import Any

from vllm.config import set_current_vllm_config
from vllm.v1.attention.backend import MultipleOf as StockMultipleOf
from vllm.v1.kv_cache_interface import AttentionSpec, KVCacheSpec
from vllm.v1.worker.gpu.attn_utils import get_kv_cache_spec

from kvquarry_client.kernel_blocks import (
    MultipleOf,
    NoCommonKernelBlock,
    Supported,
    select_kernel_blocks,
)
from kvquarry_vllm.refusals import SettingRefused
from kvquarry_vllm.scope import reason_for_stock


def keeps_block_size(vllm_config: Any) -> bool:
    """Settle the block sizes of a model in scope; False for a model that is left to stock vLLM.

    Runs in the worker, once the layers exist and before anybody asks for their cache specs.

    Raises:
        SettingRefused: The attention backends of a layer's kind cannot split the user's block.
    """
    specs = _specs_at_own_size(vllm_config)
    if reason_for_stock(vllm_config, specs) is not None:
        return False
    _check_kernel_blocks(vllm_config, specs)
    return True


def declared_by(backend: Any, spec: KVCacheSpec) -> Supported:
    """The kernel block sizes that one of vLLM's attention backends takes for a cache format."""
    return [
        MultipleOf(size.base) if isinstance(size, StockMultipleOf) else size
        for size in backend.get_supported_kernel_block_sizes(spec)
    ]


def _specs_at_own_size(vllm_config: Any) -> dict[str, KVCacheSpec]:
    """The layers' specs with the user's block size and unpadded states.

    The settings stay as they are made here: a model that is left to stock vLLM gets its own right
    after.
    """
    cache_config = vllm_config.cache_config
    if cache_config.mamba_cache_mode == "align":
        cache_config.mamba_block_size = cache_config.block_size
    cache_config.mamba_page_size_padded = None
    with set_current_vllm_config(vllm_config):
        return get_kv_cache_spec(vllm_config)


def _check_kernel_blocks(vllm_config: Any, specs: Mapping[str, KVCacheSpec]) -> None:
    """Layers of one cache format may share a group, so all their backends must agree on a size.

    Which layers do is not known yet: each group's own kernel blocks are selected when it is
    (:mod:`kvquarry_vllm.kernel_blocks`).
    """
    with set_current_vllm_config(vllm_config):
        for spec, backends in _backends_by_spec(vllm_config, specs).items():
            try:
                select_kernel_blocks(
                    spec.block_size, [declared_by(backend, spec) for backend in backends]
                )
            except NoCommonKernelBlock as error:
                names = ", ".join(backend.get_name() for backend in backends)
                raise SettingRefused(
                    f"--block-size {spec.block_size} cannot be split into kernel blocks of "
                    f"{names}: {error}. Set --block-size to a multiple of one of these."
                ) from error


def _backends_by_spec(
    vllm_config: Any, specs: Mapping[str, KVCacheSpec]
) -> dict[KVCacheSpec, list[Any]]:
    layers = vllm_config.compilation_config.static_forward_context
    found: dict[KVCacheSpec, list[Any]] = {}
    for name, spec in specs.items():
        if isinstance(spec, AttentionSpec):
            backends = found.setdefault(spec, [])
            backend = layers[name].get_attn_backend()
            if backend not in backends:
                backends.append(backend)
    return found
