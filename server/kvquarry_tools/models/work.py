"""What a model computes for a token, as far as its configuration says.

Two operations for each parameter that a token passes, those of attention to other tokens, and no
more: embeddings are looked up, logits are computed for the last token alone, and what recurrent
layers do to their states is some percent of their projections.
"""

from collections.abc import Sequence

from kvquarry_core.work import Work
from kvquarry_tools.models.configuration import Configuration
from kvquarry_tools.models.feed_forward import feed_forward_parameters
from kvquarry_tools.models.layers import FLOPS_PER_PARAMETER, Layer, Trunk


def work_of(config: Configuration, layers: Sequence[Layer]) -> Work:
    """The work of a model with these layers.

    Raises:
        InvalidConfiguration: A field that it takes is missing; the message names it.
    """
    text = config.text
    trunk = Trunk(text.count("hidden_size"), text.count("num_attention_heads"))
    feed_forward = FLOPS_PER_PARAMETER * feed_forward_parameters(text)
    works = [layer.work(trunk) for layer in layers]
    return Work(
        token_flops=float(feed_forward + sum(work.token_flops for work in works)),
        token_pair_flops=float(sum(work.token_pair_flops for work in works)),
    )
