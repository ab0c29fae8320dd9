"""Kimi delta attention beside latent attention: Kimi-Linear, Kimi-K3, GLM-5.3-Flash."""

from kvquarry_tools.errors import InvalidConfiguration
from kvquarry_tools.models.configuration import Configuration
from kvquarry_tools.models.families.latent import latent_attention
from kvquarry_tools.models.layers import Layer
from kvquarry_tools.models.states import KimiDelta

_USUAL_HEADS = 32
_USUAL_DIM = 128
_USUAL_KERNEL = 4


def read_kimi(config: Configuration) -> tuple[Layer, ...]:
    """Kimi counts its layers from 1."""
    return _layers(config, first=1)


def read_glm(config: Configuration) -> tuple[Layer, ...]:
    """GLM counts its layers from 0. The cache of its indexer is left out."""
    return _layers(config, first=0)


READERS = {
    "KimiLinearForCausalLM": read_kimi,
    "KimiK3ForConditionalGeneration": read_kimi,
    "Glm5NextForCausalLM": read_glm,
    "Glm5NextForConditionalGeneration": read_glm,
}
#: What the figures of an architecture leave out.
NOTES = dict.fromkeys(
    ("Glm5NextForCausalLM", "Glm5NextForConditionalGeneration"),
    "the cache of the sparse attention's indexer is not counted",
)


def _layers(config: Configuration, *, first: int) -> tuple[Layer, ...]:
    text = config.text
    linear = text.section("linear_attn_config")
    state = KimiDelta(
        num_heads=linear.count("num_heads", default=_USUAL_HEADS),
        head_dim=linear.count("head_dim", default=_USUAL_DIM),
        conv_kernel=linear.count("short_conv_kernel_size", default=_USUAL_KERNEL),
    )
    attention = latent_attention(text)
    states, full = set(linear.numbers("kda_layers")), set(linear.numbers("full_attn_layers"))
    indices = range(first, first + text.num_layers)
    if states & full or states | full != set(indices):
        raise InvalidConfiguration(
            "linear_attn_config: kda_layers and full_attn_layers must name each of the layers "
            f"{indices[0]} to {indices[-1]} once"
        )
    return tuple(state if index in states else attention for index in indices)
