"""How each family of architectures names what its layers keep.

A family is a small file with ``READERS``: from the architecture's name, as ``config.json`` and vLLM
have it, to the function that reads its layers. A new family needs its file, and its line here.
"""

from collections.abc import Callable, Mapping

from kvquarry_tools.models.configuration import Configuration
from kvquarry_tools.models.families import (
    chunked,
    gated_delta,
    kimi_linear,
    latent,
    mamba,
    plain,
    short_convolution,
    windowed,
)
from kvquarry_tools.models.layers import Layer

Reader = Callable[[Configuration], tuple[Layer, ...]]

READERS: Mapping[str, Reader] = {
    **chunked.READERS,
    **gated_delta.READERS,
    **kimi_linear.READERS,
    **latent.READERS,
    **mamba.READERS,
    **plain.READERS,
    **short_convolution.READERS,
    **windowed.READERS,
}
#: What the figures of an architecture leave out.
NOTES: Mapping[str, str] = kimi_linear.NOTES
