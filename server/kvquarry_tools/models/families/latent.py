"""Latent attention (MLA) in every layer: DeepSeek V2 and V3, Kimi-K2."""

from kvquarry_tools.models.configuration import Configuration
from kvquarry_tools.models.layers import LatentAttention, Layer

_USUAL_HEAD_DIM = 128


def latent_attention(text: Configuration) -> LatentAttention:
    """One latent vector a token, and the part of the key that carries its position."""
    return LatentAttention(
        text.count("kv_lora_rank"),
        text.count_or_zero("qk_rope_head_dim"),
        nope_dim=text.count_or_zero("qk_nope_head_dim", default=_USUAL_HEAD_DIM),
        value_dim=text.count("v_head_dim", default=_USUAL_HEAD_DIM),
        q_lora_rank=text.count_or_zero("q_lora_rank", default=0),
    )


def read(config: Configuration) -> tuple[Layer, ...]:
    """The same latent attention in every layer."""
    text = config.text
    return (latent_attention(text),) * text.num_layers


READERS = {
    "DeepseekV2ForCausalLM": read,
    "DeepseekV3ForCausalLM": read,
    "KimiK25ForConditionalGeneration": read,
}
