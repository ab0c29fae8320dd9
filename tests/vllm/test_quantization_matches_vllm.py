"""The cache format that the planner reads out of a checkpoint is the one that vLLM resolves."""

from __future__ import annotations

import copy
from types import SimpleNamespace
from typing import Any

import pytest
from transformers import PretrainedConfig
from vllm.config.model import ModelArchConfigConvertorBase
from vllm.utils.torch_utils import resolve_kv_cache_dtype_string

from kvquarry_tools.models.configuration import Configuration
from kvquarry_tools.models.quantization import stored_kv_dtype
from tests.tools.test_quantization import QUANTIZATIONS

BY_MODELOPT: list[dict[str, Any]] = [
    quantization
    for quantization, _ in QUANTIZATIONS
    if "producer" in quantization or quantization["quant_method"].startswith("modelopt")
]
BY_MODELOPT.append({"quant_method": "modelopt_fp4", "kv_cache_quant_algo": "NVFP4"})


@pytest.mark.parametrize("quantization", BY_MODELOPT, ids=str)
def test_auto_is_resolved_as_vllm_resolves_it(quantization: dict[str, Any]) -> None:
    read = Configuration({"quantization_config": quantization}, "here")
    hf_config = PretrainedConfig()
    hf_config.quantization_config = copy.deepcopy(quantization)
    # An engine has had the method of older checkpoints filled in before it resolves the format.
    ModelArchConfigConvertorBase(hf_config, hf_config).get_quantization_config()
    resolved = resolve_kv_cache_dtype_string("auto", SimpleNamespace(hf_config=hf_config))
    assert stored_kv_dtype(read) == resolved
