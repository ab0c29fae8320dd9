"""Keeps the user's ``--block-size`` for hybrid models.

Stock vLLM blows the attention block up until its page is as large as a state, and pads the states
to match. Here both keep their own size; all a block must still do is suit the attention kernels.
"""

from typing import Any

from vllm.config import set_current_vllm_config
from vllm.v1.kv_cache_interface import KVCacheSpec
from vllm.v1.worker.gpu.attn_utils import get_kv_cache_spec

from kvquarry_vllm.refusals import SettingRefused
from kvquarry_vllm.scope import reason_for_stock


def keeps_block_size(platform: Any, vllm_config: Any) -> bool:
    """Settle the block sizes of a model in scope; False for a model that is left to stock vLLM.

    Runs in the worker, once the layers exist and before anybody asks for their cache specs.

    Raises:
        SettingRefused: An attention backend cannot split the user's block.
    """
    specs = _specs_at_own_size(vllm_config)
    if reason_for_stock(vllm_config, specs) is not None:
        return False
    _check_kernel_blocks(platform, vllm_config)
    return True


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


def _check_kernel_blocks(platform: Any, vllm_config: Any) -> None:
    block_size = vllm_config.cache_config.block_size
    with set_current_vllm_config(vllm_config):
        for backend in platform._find_non_ssm_backends(vllm_config):
            if not backend.supports_block_size(block_size):
                sizes = backend.get_supported_kernel_block_sizes()
                raise SettingRefused(
                    f"--block-size {block_size} cannot be split into kernel blocks of "
                    f"{backend.get_name()}, which takes {sizes}. Set --block-size to a multiple "
                    "of one of these."
                )
