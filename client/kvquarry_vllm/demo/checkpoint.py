"""Tiny random checkpoints that a real engine loads: config.json and model.safetensors.

The weights are drawn from a seed, so that a checkpoint is the same on every machine, and are large
enough for the outputs to depend on the whole prompt. Two choices make runs comparable bit for bit:

- A state that forgets within a few tokens would hide a wrong one; the decay rates below keep about
  half of a state over 200 tokens.
- The CPU attention kernel cuts the keys of a prefill into tiles whose length depends on the number
  of queries, and thus on the prefix hit. Heads of 32 make a tile longer than any prompt whose
  outputs are compared (about 1,200 keys in half of a 1 MiB cache), so that there is one.
"""

import hashlib
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import torch
from safetensors.torch import save_file

VOCAB_SIZE: Final = 512
MAX_POSITIONS: Final = 4096
CHECKPOINT_SEED: Final = 20_241

_HIDDEN: Final = 128
_INTERMEDIATE: Final = 256
_EXPERT_INTERMEDIATE: Final = 64
_NUM_EXPERTS: Final = 4
_NUM_HEADS: Final = 8
_NUM_KV_HEADS: Final = 4
_HEAD_DIM: Final = 32
_STATE_KEY_HEADS: Final = 2
_STATE_VALUE_HEADS: Final = 4
_STATE_HEAD_DIM: Final = 64
_CONV_WIDTH: Final = 4


@dataclass(frozen=True, slots=True)
class Draw:
    """How one tensor is filled: normally distributed around ``mean`` with ``std``."""

    shape: tuple[int, ...]
    std: float
    mean: float = 0.0


@dataclass(frozen=True, slots=True)
class Architecture:
    """One model the demo can write: its name, its configuration and its tensors."""

    name: str
    config: Mapping[str, object]
    tensors: Mapping[str, Draw]


def write_checkpoint(architecture: Architecture, folder: Path, seed: int = CHECKPOINT_SEED) -> Path:
    """Write config.json, generation_config.json and model.safetensors into ``folder``.

    Equal seeds give equal bytes. ``folder`` is created; returns it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(architecture.config, indent=2) + "\n")
    generation = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
    (folder / "generation_config.json").write_text(json.dumps(generation, indent=2) + "\n")
    tensors = {name: _filled(name, draw, seed) for name, draw in architecture.tensors.items()}
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    return folder


def qwen3_next() -> Architecture:
    """A hybrid: 6 recurrent layers (gated delta net), 2 of full attention; one of them has experts.

    One layer's attention page takes 512 bytes a token; one layer's state takes 68,608 bytes, which
    is 134 tokens or 2.09 pages of 64 tokens.
    """
    num_layers = 8
    moe_layer = 3
    layer_types = [
        "full_attention" if index % 4 == 3 else "linear_attention" for index in range(num_layers)
    ]
    config = {
        **_common_config("Qwen3NextForCausalLM", "qwen3_next", num_layers),
        "layer_types": layer_types,
        "full_attention_interval": 4,
        "partial_rotary_factor": 0.25,
        "linear_conv_kernel_dim": _CONV_WIDTH,
        "linear_key_head_dim": _STATE_HEAD_DIM,
        "linear_value_head_dim": _STATE_HEAD_DIM,
        "linear_num_key_heads": _STATE_KEY_HEADS,
        "linear_num_value_heads": _STATE_VALUE_HEADS,
        "decoder_sparse_step": 1,
        "mlp_only_layers": [index for index in range(num_layers) if index != moe_layer],
        "moe_intermediate_size": _EXPERT_INTERMEDIATE,
        "shared_expert_intermediate_size": _EXPERT_INTERMEDIATE,
        "num_experts": _NUM_EXPERTS,
        "num_experts_per_tok": 2,
        "norm_topk_prob": True,
    }
    tensors = _embeddings(norm_mean=0.0)
    for index, kind in enumerate(layer_types):
        prefix = f"model.layers.{index}."
        mixer = _gated_attention if kind == "full_attention" else _gated_delta_net
        feed_forward = _sparse_mlp if index == moe_layer else _mlp
        tensors |= _prefixed(prefix, _layer_norms(mean=0.0) | mixer() | feed_forward())
    return Architecture("qwen3-next", config, tensors)


def llama() -> Architecture:
    """Four layers of plain full attention: one size class, any processor."""
    num_layers = 4
    config = _common_config("LlamaForCausalLM", "llama", num_layers)
    tensors = _embeddings(norm_mean=1.0)
    for index in range(num_layers):
        layer = _layer_norms(mean=1.0) | _attention() | _mlp()
        tensors |= _prefixed(f"model.layers.{index}.", layer)
    return Architecture("llama", config, tensors)


ARCHITECTURES: Final[Mapping[str, Callable[[], Architecture]]] = {
    "qwen3-next": qwen3_next,
    "llama": llama,
}


def _common_config(architecture: str, model_type: str, num_layers: int) -> dict[str, object]:
    return {
        "architectures": [architecture],
        "model_type": model_type,
        "dtype": "bfloat16",
        "vocab_size": VOCAB_SIZE,
        "hidden_size": _HIDDEN,
        "intermediate_size": _INTERMEDIATE,
        "num_hidden_layers": num_layers,
        "num_attention_heads": _NUM_HEADS,
        "num_key_value_heads": _NUM_KV_HEADS,
        "head_dim": _HEAD_DIM,
        "hidden_act": "silu",
        "max_position_embeddings": MAX_POSITIONS,
        "rms_norm_eps": 1e-6,
        "rope_theta": 10_000.0,
        "tie_word_embeddings": False,
        "attention_bias": False,
        "bos_token_id": 1,
        "eos_token_id": 2,
        "pad_token_id": 0,
    }


def _embeddings(norm_mean: float) -> dict[str, Draw]:
    return {
        "model.embed_tokens.weight": Draw((VOCAB_SIZE, _HIDDEN), 0.2),
        "model.norm.weight": Draw((_HIDDEN,), 0.0, norm_mean),
        "lm_head.weight": Draw((VOCAB_SIZE, _HIDDEN), 0.2),
    }


def _layer_norms(mean: float) -> dict[str, Draw]:
    """``mean`` is 1 for a plain norm and 0 for one that adds 1 to its weight by itself."""
    return {
        "input_layernorm.weight": Draw((_HIDDEN,), 0.0, mean),
        "post_attention_layernorm.weight": Draw((_HIDDEN,), 0.0, mean),
    }


def _attention(query_rows: int = _NUM_HEADS * _HEAD_DIM) -> dict[str, Draw]:
    return {
        "self_attn.q_proj.weight": Draw((query_rows, _HIDDEN), 0.1),
        "self_attn.k_proj.weight": Draw((_NUM_KV_HEADS * _HEAD_DIM, _HIDDEN), 0.1),
        "self_attn.v_proj.weight": Draw((_NUM_KV_HEADS * _HEAD_DIM, _HIDDEN), 0.2),
        "self_attn.o_proj.weight": Draw((_HIDDEN, _NUM_HEADS * _HEAD_DIM), 0.2),
    }


def _gated_attention() -> dict[str, Draw]:
    """Attention whose query projection also yields an output gate."""
    return _attention(query_rows=2 * _NUM_HEADS * _HEAD_DIM) | {
        "self_attn.q_norm.weight": Draw((_HEAD_DIM,), 0.0, 0.0),
        "self_attn.k_norm.weight": Draw((_HEAD_DIM,), 0.0, 0.0),
    }


def _gated_delta_net() -> dict[str, Draw]:
    key_rows = _STATE_KEY_HEADS * _STATE_HEAD_DIM
    value_rows = _STATE_VALUE_HEADS * _STATE_HEAD_DIM
    return {
        "linear_attn.in_proj_qkvz.weight": Draw((2 * key_rows + 2 * value_rows, _HIDDEN), 0.15),
        "linear_attn.in_proj_ba.weight": Draw((2 * _STATE_VALUE_HEADS, _HIDDEN), 0.1),
        "linear_attn.conv1d.weight": Draw((2 * key_rows + value_rows, 1, _CONV_WIDTH), 0.3),
        "linear_attn.A_log": Draw((_STATE_VALUE_HEADS,), 0.3, math.log(0.005)),
        "linear_attn.dt_bias": Draw((_STATE_VALUE_HEADS,), 0.1),
        "linear_attn.norm.weight": Draw((_STATE_HEAD_DIM,), 0.0, 1.0),
        "linear_attn.out_proj.weight": Draw((_HIDDEN, value_rows), 0.15),
    }


def _mlp(intermediate: int = _INTERMEDIATE) -> dict[str, Draw]:
    return {
        "mlp.gate_proj.weight": Draw((intermediate, _HIDDEN), 0.1),
        "mlp.up_proj.weight": Draw((intermediate, _HIDDEN), 0.1),
        "mlp.down_proj.weight": Draw((_HIDDEN, intermediate), 0.1),
    }


def _sparse_mlp() -> dict[str, Draw]:
    tensors = {
        "mlp.gate.weight": Draw((_NUM_EXPERTS, _HIDDEN), 0.1),
        "mlp.shared_expert_gate.weight": Draw((1, _HIDDEN), 0.1),
    }
    expert = _mlp(_EXPERT_INTERMEDIATE)
    for place in ("shared_expert", *(f"experts.{index}" for index in range(_NUM_EXPERTS))):
        tensors |= {name.replace("mlp.", f"mlp.{place}."): draw for name, draw in expert.items()}
    return tensors


def _prefixed(prefix: str, tensors: Mapping[str, Draw]) -> dict[str, Draw]:
    return {prefix + name: draw for name, draw in tensors.items()}


def _filled(name: str, draw: Draw, seed: int) -> torch.Tensor:
    """Seeded by the tensor's own name: adding a tensor leaves all others as they were."""
    digest = hashlib.sha256(f"{seed}:{name}".encode()).digest()
    generator = torch.Generator().manual_seed(int.from_bytes(digest[:6], "big"))
    values = torch.randn(draw.shape, generator=generator, dtype=torch.float32)
    return (values * draw.std + draw.mean).to(torch.bfloat16).contiguous()
