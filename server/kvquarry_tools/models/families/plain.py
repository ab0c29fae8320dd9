"""Attention of one kind in every layer, or as ``layer_types`` says: Llama, Qwen, Mistral."""

from kvquarry_tools.models.configuration import Configuration
from kvquarry_tools.models.families.attention import full_attention, sliding_window
from kvquarry_tools.models.families.patterns import layer_types
from kvquarry_tools.models.layers import Layer

_SLIDING, _FULL = "sliding_attention", "full_attention"


def read_full(config: Configuration) -> tuple[Layer, ...]:
    """Full attention, and windows only where ``layer_types`` names them."""
    return _layers(config.text, usual=_FULL)


def read_mistral(config: Configuration) -> tuple[Layer, ...]:
    """A window in every layer, if the configuration gives one."""
    text = config.text
    return _layers(text, usual=_SLIDING if text.has("sliding_window") else _FULL)


READERS = {
    "LlamaForCausalLM": read_full,
    "Qwen2ForCausalLM": read_full,
    "Qwen3ForCausalLM": read_full,
    "Qwen3MoeForCausalLM": read_full,
    "Qwen3VLForConditionalGeneration": read_full,
    "Qwen3VLMoeForConditionalGeneration": read_full,
    "MiMoForCausalLM": read_full,
    "MiniMaxM2ForCausalLM": read_full,
    "MistralForCausalLM": read_mistral,
    "MixtralForCausalLM": read_mistral,
}


def _layers(text: Configuration, usual: str) -> tuple[Layer, ...]:
    made: dict[str, Layer] = {_FULL: full_attention(text)}
    if text.has("sliding_window"):
        made[_SLIDING] = sliding_window(text, text.count("sliding_window"))

    def every_layer(text: Configuration) -> list[str]:
        return [usual] * text.num_layers

    return tuple(made[kind] for kind in layer_types(text, every_layer, known=made))
