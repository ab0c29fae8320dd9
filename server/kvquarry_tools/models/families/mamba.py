"""Mamba layers beside full attention: Nemotron-H, Granite, Bamba, Falcon-H1, Zamba2, Jamba.

Each of them names the same things differently.
"""

from kvquarry_tools.errors import InvalidConfiguration
from kvquarry_tools.models.configuration import Configuration
from kvquarry_tools.models.dtypes import STATE_BYTES, bytes_of
from kvquarry_tools.models.families.attention import full_attention, kv_heads
from kvquarry_tools.models.families.patterns import layer_types
from kvquarry_tools.models.layers import Attention, Layer
from kvquarry_tools.models.states import Mamba1, Mamba2

#: Layers of these kinds keep nothing from token to token.
_KEEPS_NOTHING = ("moe", "mlp")
_NEMOTRON_LETTERS = {"M": "mamba", "*": "attention", "-": "mlp", "E": "moe"}
_ZAMBA2_ATTENTION_WIDTH = 2


def read_nemotron_h(config: Configuration) -> tuple[Layer, ...]:
    """Nemotron-H and Nemotron 3: a letter or a word per layer; states are float32 by default."""
    text = config.text
    num_heads, head_dim = text.count("mamba_num_heads"), text.count("mamba_head_dim")
    state_dtype = text.word("mamba_ssm_cache_dtype", "float32")
    made: dict[str, Layer] = {
        "attention": Attention(kv_heads(text), text.count("head_dim", "attention_head_dim")),
        "mamba": Mamba2(
            num_heads=num_heads,
            head_dim=head_dim,
            d_state=text.count("ssm_state_size"),
            d_inner=num_heads * head_dim,
            num_groups=text.count("n_groups"),
            conv_kernel=text.count("conv_kernel"),
            default_bytes=bytes_of(state_dtype, STATE_BYTES, "mamba_ssm_cache_dtype"),
        ),
    }
    return tuple(made[kind] for kind in _nemotron_kinds(text) if kind in made)


def read_granite(config: Configuration) -> tuple[Layer, ...]:
    """Granite 4.0 H: ``layer_types`` of ``mamba`` and ``attention``."""
    made = _mamba_or_attention(config)
    return tuple(made[kind] for kind in layer_types(config, _all_mamba, known=made))


def read_bamba(config: Configuration) -> tuple[Layer, ...]:
    """Bamba: attention at ``attn_layer_indices``."""
    made = _mamba_or_attention(config)
    attention = set(config.numbers("attn_layer_indices"))
    return tuple(
        made["attention" if index in attention else "mamba"] for index in range(config.num_layers)
    )


def read_falcon_h1(config: Configuration) -> tuple[Layer, ...]:
    """Falcon-H1: attention and Mamba side by side in every layer."""
    made = _mamba_or_attention(config)
    return (made["attention"], made["mamba"]) * config.num_layers


def read_zamba2(config: Configuration) -> tuple[Layer, ...]:
    """Zamba2: Mamba in every layer, and before some a shared attention of twice the width."""
    num_heads, hidden = config.count("num_attention_heads"), config.count("hidden_size")
    d_inner = config.count("mamba_expand") * hidden
    attention = Attention(
        config.count("num_key_value_heads", "num_attention_heads"),
        _ZAMBA2_ATTENTION_WIDTH * hidden // num_heads,
    )
    mamba = Mamba2(
        num_heads=config.count("n_mamba_heads"),
        head_dim=d_inner // config.count("n_mamba_heads"),
        d_state=config.count("mamba_d_state"),
        d_inner=d_inner,
        num_groups=config.count("mamba_ngroups"),
        conv_kernel=config.count("mamba_d_conv"),
    )
    return tuple(
        layer
        for kind in config.words("layers_block_type")
        for layer in ((attention, mamba) if kind == "hybrid" else (mamba,))
    )


def read_jamba(config: Configuration) -> tuple[Layer, ...]:
    """Jamba: attention once in every ``attn_layer_period`` layers, else Mamba 1."""
    period, offset = config.count("attn_layer_period"), config.count_or_zero("attn_layer_offset")
    attention = full_attention(config)
    mamba = Mamba1(
        d_inner=config.count("mamba_expand") * config.count("hidden_size"),
        d_state=config.count("mamba_d_state"),
        conv_kernel=config.count("mamba_d_conv"),
    )
    return tuple(
        attention if index % period == offset else mamba for index in range(config.num_layers)
    )


READERS = {
    "NemotronHForCausalLM": read_nemotron_h,
    "GraniteMoeHybridForCausalLM": read_granite,
    "BambaForCausalLM": read_bamba,
    "FalconH1ForCausalLM": read_falcon_h1,
    "Zamba2ForCausalLM": read_zamba2,
    "JambaForCausalLM": read_jamba,
}


def _nemotron_kinds(text: Configuration) -> list[str]:
    if text.has("layers_block_type"):
        return _known(text.words("layers_block_type"))
    pattern = text.word("hybrid_override_pattern", "")
    return _known([_NEMOTRON_LETTERS.get(letter, letter) for letter in pattern])


def _known(kinds: list[str]) -> list[str]:
    for index, kind in enumerate(kinds):
        if kind not in (*_KEEPS_NOTHING, "mamba", "attention"):
            raise InvalidConfiguration(
                f"layer {index} of the pattern is of kind {kind!r}; Nemotron has mamba, attention, "
                f"{' and '.join(_KEEPS_NOTHING)}"
            )
    return kinds


def _mamba_or_attention(config: Configuration) -> dict[str, Layer]:
    """The two kinds of layer with the field names that Granite, Bamba and Falcon-H1 share."""
    d_inner = config.count(
        "mamba_d_ssm", default=config.count("mamba_expand") * config.count("hidden_size")
    )
    num_heads = config.count("mamba_n_heads")
    return {
        "attention": full_attention(config),
        "mamba": Mamba2(
            num_heads=num_heads,
            head_dim=d_inner // num_heads,
            d_state=config.count("mamba_d_state"),
            d_inner=d_inner,
            num_groups=config.count("mamba_n_groups"),
            conv_kernel=config.count("mamba_d_conv"),
        ),
    }


def _all_mamba(config: Configuration) -> list[str]:
    return ["mamba"] * config.num_layers
