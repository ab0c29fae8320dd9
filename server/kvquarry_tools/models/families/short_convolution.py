"""Short convolutions beside full attention: LFM2."""

from kvquarry_tools.models.configuration import Configuration
from kvquarry_tools.models.families.attention import full_attention
from kvquarry_tools.models.families.patterns import layer_types
from kvquarry_tools.models.layers import Layer
from kvquarry_tools.models.states import ShortConvolution


def read(config: Configuration) -> tuple[Layer, ...]:
    """The layers of ``layer_types``, or full attention at ``full_attn_idxs``."""
    convolution = ShortConvolution(
        channels=config.count("conv_dim", "hidden_size"),
        conv_kernel=config.count("conv_L_cache"),
    )
    made: dict[str, Layer] = {"conv": convolution, "full_attention": full_attention(config)}
    return tuple(made[kind] for kind in layer_types(config, _at_indices, known=made))


READERS = {"Lfm2ForCausalLM": read, "Lfm2MoeForCausalLM": read}


def _at_indices(config: Configuration) -> list[str]:
    full = set(config.numbers("full_attn_idxs"))
    return ["full_attention" if index in full else "conv" for index in range(config.num_layers)]
