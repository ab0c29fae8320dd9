"""The cache of one recurrent layer and its work: one state, whatever the length of what it sums up.

Every state but a short convolution's has two parts: the tail of a convolution, in the model's own
format, and the recurrent state proper, in a format of its own. Sources: the shapes are vLLM's
(``mamba_utils.MambaStateShapeCalculator``, 0.32), read and written anew.
"""

from dataclasses import dataclass

from kvquarry_core.plan import GroupKind
from kvquarry_core.work import Work
from kvquarry_tools.errors import InvalidOption
from kvquarry_tools.models.layers import FLOPS_PER_PARAMETER, LayerCache, Trunk
from kvquarry_tools.models.serving import Precision

#: Kernels are compiled for strides of whole multiples of this many elements.
_ALIGNMENT_ELEMENTS = 16
_FLOAT32_BYTES = 4
#: Queries and keys, or the matrices B and C.
_TWO = 2
#: Mamba's time step has a rank of this part of the hidden size.
_USUAL_STEP_SHARE = 16


@dataclass(frozen=True, slots=True)
class Mamba1:
    """Mamba: ``d_inner * d_state`` numbers and the convolution's tail. Drafts are not kept."""

    d_inner: int
    d_state: int
    conv_kernel: int

    def cache(self, precision: Precision) -> LayerCache:
        """See :meth:`kvquarry_tools.models.layers.Layer.cache`."""
        channels = precision.share(self.d_inner, "channels of a state")
        tail = channels * (self.conv_kernel - 1)
        return _state(precision, tail, channels * self.d_state, precision.activation_bytes)

    def work(self, trunk: Trunk) -> Work:
        """See :meth:`kvquarry_tools.models.layers.Layer.work`."""
        hidden = trunk.hidden_size
        step_rank = -(-hidden // _USUAL_STEP_SHARE)
        return _passing(self.d_inner * (3 * hidden + 2 * self.d_state + 2 * step_rank))


@dataclass(frozen=True, slots=True)
class Mamba2:
    """Mamba 2: ``heads * head_dim * d_state`` numbers and the convolution's tail.

    Attributes:
        default_bytes: Bytes per number unless told otherwise; None: those of the model's format.
    """

    num_heads: int
    head_dim: int
    d_state: int
    d_inner: int
    num_groups: int
    conv_kernel: int
    default_bytes: int | None = None

    def cache(self, precision: Precision) -> LayerCache:
        """See :meth:`kvquarry_tools.models.layers.Layer.cache`."""
        channels = self.d_inner + _TWO * self._groups(precision) * self.d_state
        tail = precision.share(channels, "channels of a convolution") * _tail(self, precision)
        heads = precision.share(self.num_heads, "heads of a state")
        default_bytes = self.default_bytes or precision.activation_bytes
        return _state(precision, tail, heads * self.head_dim * self.d_state, default_bytes)

    def _groups(self, precision: Precision) -> int:
        """Every worker needs the group of each of its heads; too few of them are copied."""
        if self.num_groups % precision.tp == 0:
            return self.num_groups
        return precision.tp

    def work(self, trunk: Trunk) -> Work:
        """See :meth:`kvquarry_tools.models.layers.Layer.work`."""
        inputs = _TWO * self.d_inner + _TWO * self.num_groups * self.d_state + self.num_heads
        return _passing(trunk.hidden_size * (inputs + self.d_inner))


@dataclass(frozen=True, slots=True)
class GatedDelta:
    """Gated delta net (Qwen3-Next and on): ``v_heads * v_dim * k_dim`` numbers and the tail.

    Attributes:
        default_bytes: Bytes per number unless told otherwise; None: those of the model's format.
    """

    num_k_heads: int
    num_v_heads: int
    k_dim: int
    v_dim: int
    conv_kernel: int
    default_bytes: int | None = None

    def cache(self, precision: Precision) -> LayerCache:
        """See :meth:`kvquarry_tools.models.layers.Layer.cache`."""
        channels = _TWO * self.num_k_heads * self.k_dim + self.num_v_heads * self.v_dim
        tail = precision.share(channels, "channels of a convolution") * _tail(self, precision)
        heads = precision.share(self.num_v_heads, "heads of a state")
        default_bytes = self.default_bytes or precision.activation_bytes
        return _state(precision, tail, heads * self.v_dim * self.k_dim, default_bytes)

    def work(self, trunk: Trunk) -> Work:
        """See :meth:`kvquarry_tools.models.layers.Layer.work`."""
        keys, values = self.num_k_heads * self.k_dim, self.num_v_heads * self.v_dim
        inputs = _TWO * (keys + values + self.num_v_heads)
        return _passing(trunk.hidden_size * (inputs + values))


@dataclass(frozen=True, slots=True)
class KimiDelta:
    """Kimi delta attention: ``heads * dim * dim`` numbers, float32 by default, and three tails."""

    num_heads: int
    head_dim: int
    conv_kernel: int

    def cache(self, precision: Precision) -> LayerCache:
        """See :meth:`kvquarry_tools.models.layers.Layer.cache`."""
        heads = precision.share(self.num_heads, "heads of a state")
        tail = 3 * heads * self.head_dim * _tail(self, precision)
        return _state(precision, tail, heads * self.head_dim * self.head_dim, _FLOAT32_BYTES)

    def work(self, trunk: Trunk) -> Work:
        """See :meth:`kvquarry_tools.models.layers.Layer.work`."""
        hidden, width = trunk.hidden_size, self.num_heads * self.head_dim
        gates = _TWO * self.head_dim * (hidden + width) + hidden * self.num_heads
        return _passing(4 * hidden * width + gates)


@dataclass(frozen=True, slots=True)
class ShortConvolution:
    """A convolution's tail and nothing else (LFM2). Drafts are not kept."""

    channels: int
    conv_kernel: int

    def cache(self, precision: Precision) -> LayerCache:
        """See :meth:`kvquarry_tools.models.layers.Layer.cache`."""
        channels = precision.share(self.channels, "channels of a convolution")
        tail = channels * (self.conv_kernel - 1)
        return _state(precision, tail, 0, precision.activation_bytes)

    def work(self, trunk: Trunk) -> Work:
        """See :meth:`kvquarry_tools.models.layers.Layer.work`."""
        return _passing(4 * trunk.hidden_size * self.channels)


def _passing(parameters: int) -> Work:
    """A token passes so many; what it does to the state is little beside that."""
    return Work(FLOPS_PER_PARAMETER * parameters)


def _tail(layer: Mamba2 | GatedDelta | KimiDelta, precision: Precision) -> int:
    """Tokens a convolution keeps: those before the next one, and those drafted."""
    return layer.conv_kernel - 1 + precision.num_speculative_tokens


def _state(
    precision: Precision, tail_numbers: int, state_numbers: int, default_bytes: int
) -> LayerCache:
    number_bytes = precision.state_bytes or default_bytes
    widest_bytes = max(precision.activation_bytes, number_bytes if state_numbers else 0)
    state_bytes = tail_numbers * precision.activation_bytes + state_numbers * number_bytes
    if not state_bytes:
        raise InvalidOption("a recurrent layer of this model would keep nothing; check its fields")
    return LayerCache(
        GroupKind.RECURRENT_STATE,
        state_bytes=state_bytes,
        num_speculative_blocks=precision.num_speculative_tokens,
        alignment_bytes=_ALIGNMENT_ELEMENTS * widest_bytes,
    )
