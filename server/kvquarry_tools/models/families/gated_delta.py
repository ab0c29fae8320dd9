"""Gated delta nets beside full attention: Qwen3-Next, Qwen3.5, Qwen3.6."""

from kvquarry_tools.models.configuration import Configuration
from kvquarry_tools.models.dtypes import STATE_BYTES, bytes_of
from kvquarry_tools.models.families.attention import full_attention
from kvquarry_tools.models.families.patterns import layer_types
from kvquarry_tools.models.layers import Layer
from kvquarry_tools.models.states import GatedDelta

_USUAL_INTERVAL = 4


def read(config: Configuration) -> tuple[Layer, ...]:
    """The layers of ``layer_types``, or full attention once in ``full_attention_interval``."""
    text = config.text
    made: dict[str, Layer] = {
        "linear_attention": _state(text),
        "full_attention": full_attention(text),
    }
    return tuple(made[kind] for kind in layer_types(text, _every_few, known=made))


READERS = {
    "Qwen3NextForCausalLM": read,
    "Qwen3_5ForCausalLM": read,
    "Qwen3_5ForConditionalGeneration": read,
    "Qwen3_5MoeForCausalLM": read,
    "Qwen3_5MoeForConditionalGeneration": read,
}


def _every_few(text: Configuration) -> list[str]:
    interval = text.count("full_attention_interval", default=_USUAL_INTERVAL)
    return [
        "linear_attention" if (index + 1) % interval else "full_attention"
        for index in range(text.num_layers)
    ]


def _state(text: Configuration) -> GatedDelta:
    return GatedDelta(
        num_k_heads=text.count("linear_num_key_heads"),
        num_v_heads=text.count("linear_num_value_heads"),
        k_dim=text.count("linear_key_head_dim"),
        v_dim=text.count("linear_value_head_dim"),
        conv_kernel=text.count("linear_conv_kernel_dim"),
        default_bytes=_default_bytes(text),
    )


def _default_bytes(text: Configuration) -> int | None:
    if not text.has("mamba_ssm_dtype"):
        return None
    return bytes_of(text.word("mamba_ssm_dtype", ""), STATE_BYTES, "mamba_ssm_dtype")
