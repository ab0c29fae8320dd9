"""Sliding windows beside full attention: Gemma 2 and 3, gpt-oss; and of two sizes: Gemma 4."""

from kvquarry_core.plan import GroupKind
from kvquarry_tools.errors import InvalidConfiguration
from kvquarry_tools.models.configuration import Configuration
from kvquarry_tools.models.families.attention import full_attention, sliding_window
from kvquarry_tools.models.families.patterns import layer_types
from kvquarry_tools.models.layers import Attention, Layer

#: What Gemma's configurations leave out means these.
_GEMMA_KV_HEADS = 4
_GEMMA_HEAD_DIM = 256
_GEMMA3_PATTERN = 6
_SLIDING, _FULL = "sliding_attention", "full_attention"


def read_gpt_oss(config: Configuration) -> tuple[Layer, ...]:
    """gpt-oss: a window in every other layer."""
    window_tokens = config.count("sliding_window")
    made: dict[str, Layer] = {
        _SLIDING: sliding_window(config, window_tokens),
        _FULL: full_attention(config),
    }
    return _by_type(config, made, interval=2)


def read_gemma2(config: Configuration) -> tuple[Layer, ...]:
    """Gemma 2: a window in every other layer."""
    return _by_type(config, _gemma_layers(config), interval=2)


def read_gemma3(config: Configuration) -> tuple[Layer, ...]:
    """Gemma 3: full attention once in ``sliding_window_pattern`` layers."""
    text = config.text
    interval = text.count("sliding_window_pattern", default=_GEMMA3_PATTERN)
    return _by_type(text, _gemma_layers(text), interval=interval)


def read_gemma4(config: Configuration) -> tuple[Layer, ...]:
    """Gemma 4: full attention has heads of its own; the last layers may share others' cache."""
    text = config.text
    kv_heads = text.count("num_key_value_heads")
    made: dict[str, Layer] = {
        _SLIDING: Attention(
            kv_heads, text.count("head_dim"), GroupKind.SLIDING_WINDOW, text.count("sliding_window")
        ),
        _FULL: Attention(
            text.count("num_global_key_value_heads", default=kv_heads),
            text.count("global_head_dim", "head_dim"),
        ),
    }
    layers = _by_type(text, made, interval=_GEMMA3_PATTERN)
    num_sharing = text.count_or_zero("num_kv_shared_layers", default=0)
    if num_sharing >= len(layers):
        raise InvalidConfiguration(
            "num_kv_shared_layers must leave a layer with a cache of its own"
        )
    return layers[: len(layers) - num_sharing]


READERS = {
    "GptOssForCausalLM": read_gpt_oss,
    "Gemma2ForCausalLM": read_gemma2,
    "Gemma3ForCausalLM": read_gemma3,
    "Gemma3ForConditionalGeneration": read_gemma3,
    "Gemma4ForCausalLM": read_gemma4,
    "Gemma4ForConditionalGeneration": read_gemma4,
}


def _gemma_layers(text: Configuration) -> dict[str, Layer]:
    kv_heads = text.count("num_key_value_heads", default=_GEMMA_KV_HEADS)
    head_dim = text.count("head_dim", default=_GEMMA_HEAD_DIM)
    window_tokens = text.count("sliding_window")
    return {
        _SLIDING: Attention(kv_heads, head_dim, GroupKind.SLIDING_WINDOW, window_tokens),
        _FULL: Attention(kv_heads, head_dim),
    }


def _by_type(text: Configuration, made: dict[str, Layer], interval: int) -> tuple[Layer, ...]:
    def usual(text: Configuration) -> list[str]:
        return [_SLIDING if (index + 1) % interval else _FULL for index in range(text.num_layers)]

    return tuple(made[kind] for kind in layer_types(text, usual, known=made))
