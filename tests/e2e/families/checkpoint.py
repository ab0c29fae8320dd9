"""Writes a family's checkpoint: transformers knows the tensors, a seed knows their values."""

from __future__ import annotations

import hashlib
import math
from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForSpeechSeq2Seq

from tests.e2e.families.catalogue import COMMON, Family
from tests.e2e.families.whisper import write_processor

_SEED = 20_241
#: What a layer adds to the residual stream.
_LOUD = ("o_proj.weight", "down_proj.weight")


def write_family(family: Family, folder: Path) -> Path:
    """Write config.json and model.safetensors; equal seeds give equal weights."""
    config = AutoConfig.for_model(family.model_type, **{**COMMON, **family.config})
    config.dtype = "bfloat16"
    architecture = AutoModelForCausalLM
    if config.is_encoder_decoder:
        architecture = AutoModelForSpeechSeq2Seq
        write_processor(folder)
    model: Any = architecture.from_config(config)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(_values(name, parameter.shape))
            if name.endswith(_LOUD):
                parameter.mul_(family.loudness)
    model.to(torch.bfloat16).save_pretrained(folder)
    return folder


def _values(name: str, shape: torch.Size) -> torch.Tensor:
    """Seeded by the tensor's own name; large enough for outputs to depend on the whole prompt."""
    digest = hashlib.sha256(f"{_SEED}:{name}".encode()).digest()
    generator = torch.Generator().manual_seed(int.from_bytes(digest[:6], "big"))
    mean, std = _distribution(name, shape)
    return torch.randn(shape, generator=generator) * std + mean


def _distribution(name: str, shape: torch.Size) -> tuple[float, float]:
    last = name.rpartition(".")[2]
    if last == "A_log":
        return math.log(0.005), 0.3  # keeps about half of a state over 200 tokens
    if "norm" in name or last == "D":
        return 1.0, 0.0
    if last == "dt_bias" or len(shape) == 1:
        return 0.0, 0.1
    if "conv" in name and shape[-1] <= 4:
        return 0.0, 0.5
    return 0.0, 0.2 if "embed" in name or "lm_head" in name else 0.15
