"""The attention that most configurations describe with the same fields."""

from kvquarry_core.plan import GroupKind
from kvquarry_tools.models.configuration import Configuration
from kvquarry_tools.models.layers import Attention


def full_attention(text: Configuration) -> Attention:
    """Full attention with the configuration's heads."""
    return Attention(kv_heads(text), head_dim(text))


def sliding_window(text: Configuration, window_tokens: int) -> Attention:
    """A sliding window with the configuration's heads."""
    return Attention(kv_heads(text), head_dim(text), GroupKind.SLIDING_WINDOW, window_tokens)


def kv_heads(text: Configuration) -> int:
    """Heads of keys and values: as many as of queries, unless told otherwise."""
    return text.count("num_key_value_heads", "num_attention_heads")


def head_dim(text: Configuration) -> int:
    """Numbers per head: the hidden size dealt out to the heads, unless told otherwise."""
    if text.has("head_dim"):
        return text.count("head_dim")
    return text.count("hidden_size") // text.count("num_attention_heads")
