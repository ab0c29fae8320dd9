"""A layer that drafts for another model: by itself, or as EAGLE's from what the other thinks."""

from __future__ import annotations

from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

from tests.e2e.families.catalogue import DRAFTERS
from tests.e2e.families.checkpoint import write_family

#: How much of its input EAGLE's layer takes from the target's hidden state.
_HEARD = 0.3


def write_drafter(drafts_by: str, folder: Path) -> Path:
    """Write the checkpoint that ``speculative_config`` names as its model."""
    write_family(DRAFTERS[drafts_by], folder)
    if drafts_by == "eagle":
        _make_eagle(folder / "model.safetensors")
    return folder


def _make_eagle(file: Path) -> None:
    """Embedding and head are the target's, and no norm stands before the first layer."""
    tensors = {
        name.removeprefix("model."): tensor
        for name, tensor in load_file(file).items()
        if "layers.0." in name and "input_layernorm" not in name
    }
    same = torch.eye(len(tensors["layers.0.post_attention_layernorm.weight"]))
    tensors["fc.weight"] = torch.cat([same, _HEARD * same], dim=1).to(torch.bfloat16)
    save_file(tensors, file, metadata={"format": "pt"})
