"""A hybrid checkpoint whose states are as large, beside its pages, as those of Qwen3.6-35B-A3B.

There one layer's state takes 2,146,304 bytes and one token of one attention layer 2,048, which is
65.5 pages of 16 tokens, so that stock vLLM raises ``--block-size 16`` to 1,056. Here both are a
quarter of that: a quarter of the heads, each of the same size. The other sizes are chosen so that
computing a prompt takes far longer than planning and starting a step.
"""

import math
from collections.abc import Mapping
from typing import Final

from kvquarry_vllm.demo.checkpoint import VOCAB_SIZE, Architecture, Draw, qwen3_next

#: Tokens of one attention layer that take the bytes of one layer's state: 65.5 pages of 16.
STATE_TOKENS: Final = 1048

_HIDDEN: Final = 512
_INTERMEDIATE: Final = 1536
_EXPERT_INTERMEDIATE: Final = 256
_NUM_EXPERTS: Final = 2
_NUM_HEADS: Final = 8
_NUM_KV_HEADS: Final = 4
_HEAD_DIM: Final = 32
_KEY_HEADS: Final = 4
_VALUE_HEADS: Final = 8
_STATE_HEAD_DIM: Final = 128
_CONV_WIDTH: Final = 4
_LAYER_TYPES: Final = ("linear_attention",) * 3 + ("full_attention",)
_MOE_LAYER: Final = 3


def large_states() -> Architecture:
    """Three recurrent layers and one of full attention, which has the experts vLLM asks for."""
    tensors = {
        "model.embed_tokens.weight": Draw((VOCAB_SIZE, _HIDDEN), 0.2),
        "model.norm.weight": Draw((_HIDDEN,), 0.0),
        "lm_head.weight": _projection(VOCAB_SIZE, _HIDDEN),
    }
    for index, kind in enumerate(_LAYER_TYPES):
        mixer = _gated_attention() if kind == "full_attention" else _gated_delta_net()
        feed_forward = _experts() if index == _MOE_LAYER else _mlp("mlp.", _INTERMEDIATE)
        layer = _norms() | mixer | feed_forward
        tensors |= {f"model.layers.{index}.{name}": draw for name, draw in layer.items()}
    return Architecture("large-states", _config(), tensors)


def _config() -> Mapping[str, object]:
    """The demo's model in other sizes."""
    return {
        **qwen3_next().config,
        "hidden_size": _HIDDEN,
        "intermediate_size": _INTERMEDIATE,
        "num_hidden_layers": len(_LAYER_TYPES),
        "num_attention_heads": _NUM_HEADS,
        "num_key_value_heads": _NUM_KV_HEADS,
        "head_dim": _HEAD_DIM,
        "layer_types": list(_LAYER_TYPES),
        "full_attention_interval": len(_LAYER_TYPES),
        "linear_conv_kernel_dim": _CONV_WIDTH,
        "linear_key_head_dim": _STATE_HEAD_DIM,
        "linear_value_head_dim": _STATE_HEAD_DIM,
        "linear_num_key_heads": _KEY_HEADS,
        "linear_num_value_heads": _VALUE_HEADS,
        "mlp_only_layers": [index for index in range(len(_LAYER_TYPES)) if index != _MOE_LAYER],
        "moe_intermediate_size": _EXPERT_INTERMEDIATE,
        "shared_expert_intermediate_size": _EXPERT_INTERMEDIATE,
        "num_experts": _NUM_EXPERTS,
    }


def _norms() -> dict[str, Draw]:
    """Zero: this model's norms add 1 to their weights."""
    names = ("input_layernorm.weight", "post_attention_layernorm.weight")
    return {name: Draw((_HIDDEN,), 0.0) for name in names}


def _gated_attention() -> dict[str, Draw]:
    """The query projection yields an output gate too."""
    return {
        "self_attn.q_proj.weight": _projection(2 * _NUM_HEADS * _HEAD_DIM, _HIDDEN),
        "self_attn.k_proj.weight": _projection(_NUM_KV_HEADS * _HEAD_DIM, _HIDDEN),
        "self_attn.v_proj.weight": _projection(_NUM_KV_HEADS * _HEAD_DIM, _HIDDEN),
        "self_attn.o_proj.weight": _projection(_HIDDEN, _NUM_HEADS * _HEAD_DIM),
        "self_attn.q_norm.weight": Draw((_HEAD_DIM,), 0.0),
        "self_attn.k_norm.weight": Draw((_HEAD_DIM,), 0.0),
    }


def _gated_delta_net() -> dict[str, Draw]:
    """Decay rates that keep about half of a state over 200 tokens."""
    key_rows, value_rows = _KEY_HEADS * _STATE_HEAD_DIM, _VALUE_HEADS * _STATE_HEAD_DIM
    return {
        "linear_attn.in_proj_qkvz.weight": _projection(2 * key_rows + 2 * value_rows, _HIDDEN),
        "linear_attn.in_proj_ba.weight": _projection(2 * _VALUE_HEADS, _HIDDEN),
        "linear_attn.conv1d.weight": Draw((2 * key_rows + value_rows, 1, _CONV_WIDTH), 0.3),
        "linear_attn.A_log": Draw((_VALUE_HEADS,), 0.3, math.log(0.005)),
        "linear_attn.dt_bias": Draw((_VALUE_HEADS,), 0.1),
        "linear_attn.norm.weight": Draw((_STATE_HEAD_DIM,), 0.0, 1.0),
        "linear_attn.out_proj.weight": _projection(_HIDDEN, value_rows),
    }


def _experts() -> dict[str, Draw]:
    tensors = {
        "mlp.gate.weight": _projection(_NUM_EXPERTS, _HIDDEN),
        "mlp.shared_expert_gate.weight": _projection(1, _HIDDEN),
    }
    for place in ("shared_expert", *(f"experts.{index}" for index in range(_NUM_EXPERTS))):
        tensors |= _mlp(f"mlp.{place}.", _EXPERT_INTERMEDIATE)
    return tensors


def _mlp(prefix: str, intermediate: int) -> dict[str, Draw]:
    return {
        f"{prefix}gate_proj.weight": _projection(intermediate, _HIDDEN),
        f"{prefix}up_proj.weight": _projection(intermediate, _HIDDEN),
        f"{prefix}down_proj.weight": _projection(_HIDDEN, intermediate),
    }


def _projection(num_rows: int, num_columns: int) -> Draw:
    """Keeps the size of what passes through it."""
    return Draw((num_rows, num_columns), 1.5 / math.sqrt(num_columns))
