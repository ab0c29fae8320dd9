"""Chunked local attention beside full attention: Llama 4."""

from dataclasses import replace

from kvquarry_core.plan import GroupKind
from kvquarry_tools.models.configuration import Configuration
from kvquarry_tools.models.families.attention import full_attention
from kvquarry_tools.models.families.patterns import layer_types
from kvquarry_tools.models.layers import Layer

_USUAL_INTERVAL = 4
_CHUNKED, _FULL = "chunked_attention", "full_attention"


def read(config: Configuration) -> tuple[Layer, ...]:
    """Layers without rotary positions attend to everything, the others within their chunk."""
    text = config.text
    full = full_attention(text)
    chunked = replace(
        full, kind=GroupKind.CHUNKED_LOCAL, window_tokens=text.count("attention_chunk_size")
    )
    made: dict[str, Layer] = {_CHUNKED: chunked, _FULL: full}
    return tuple(made[kind] for kind in layer_types(text, _by_rope, known=made))


READERS = {"Llama4ForCausalLM": read, "Llama4ForConditionalGeneration": read}


def _by_rope(text: Configuration) -> list[str]:
    if text.has("no_rope_layers") and (has_rope := text.numbers("no_rope_layers")):
        return [_CHUNKED if rotary else _FULL for rotary in has_rope]
    interval = text.count("no_rope_layer_interval", default=_USUAL_INTERVAL)
    return [_CHUNKED if (index + 1) % interval else _FULL for index in range(text.num_layers)]
