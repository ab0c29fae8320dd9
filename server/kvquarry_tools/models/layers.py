"""The cache of one layer of attention: what a token takes, and how long it is kept."""

from dataclasses import dataclass
from typing import Protocol

from kvquarry_core.plan import GroupKind
from kvquarry_tools.errors import CannotShare
from kvquarry_tools.models.serving import Precision

#: Keys and values.
_TWO = 2
ATTENTION_ALIGNMENT_BYTES = 16


@dataclass(frozen=True, slots=True)
class LayerCache:
    """What one layer keeps on one worker; equal ones can share a block table.

    Attributes:
        kind: The rules that its blocks follow.
        bytes_per_token: Bytes of one token; 0 for states.
        state_bytes: Bytes of one state; 0 for attention.
        window_tokens: Tokens of a sliding window or a local chunk; 0 for others.
        num_speculative_blocks: Extra states a request holds for rejected drafts.
        alignment_bytes: Where states begin, when they are padded.
        is_latent: Multi-head latent attention, whose kernels want blocks of 128 tokens in a hybrid.
    """

    kind: GroupKind
    bytes_per_token: int = 0
    state_bytes: int = 0
    window_tokens: int = 0
    num_speculative_blocks: int = 0
    alignment_bytes: int = ATTENTION_ALIGNMENT_BYTES
    is_latent: bool = False

    def page_bytes(self, block_tokens: int) -> int:
        """Bytes of one block in this layer."""
        return self.state_bytes or self.bytes_per_token * block_tokens


class Layer(Protocol):
    """A layer that keeps something from token to token."""

    def cache(self, precision: Precision) -> LayerCache:
        """What the layer keeps on one worker.

        Raises:
            CannotShare: The layer cannot be dealt out to so many workers.
            InvalidOption: It cannot be kept in that format.
        """
        ...


@dataclass(frozen=True, slots=True)
class Attention:
    """Keys and values of some heads: ``2 * kv_heads * head_dim`` numbers a token.

    Attributes:
        num_kv_heads: Heads of keys and values; with fewer heads than workers each keeps one.
        head_dim: Numbers per head.
        kind: Full attention, a sliding window or local chunks.
        window_tokens: Tokens of the window or chunk; 0 for full attention.
    """

    num_kv_heads: int
    head_dim: int
    kind: GroupKind = GroupKind.FULL_ATTENTION
    window_tokens: int = 0

    def cache(self, precision: Precision) -> LayerCache:
        """See :meth:`Layer.cache`."""
        num_heads = self._heads_per_worker(precision)
        return LayerCache(
            self.kind,
            bytes_per_token=_TWO * num_heads * self.head_dim * precision.kv_bytes,
            window_tokens=self.window_tokens,
        )

    def _heads_per_worker(self, precision: Precision) -> int:
        if self.num_kv_heads >= precision.tp:
            return precision.share(self.num_kv_heads, "heads of keys and values")
        if precision.tp % self.num_kv_heads:
            raise CannotShare(
                f"--tp {precision.tp} is no multiple of the model's {self.num_kv_heads} heads of "
                "keys and values"
            )
        return 1


@dataclass(frozen=True, slots=True)
class LatentAttention:
    """One latent vector a token, which every worker keeps whole (MLA)."""

    kv_lora_rank: int
    rope_dim: int

    def cache(self, precision: Precision) -> LayerCache:
        """See :meth:`Layer.cache`."""
        return LayerCache(
            GroupKind.FULL_ATTENTION,
            bytes_per_token=(self.kv_lora_rank + self.rope_dim) * precision.kv_bytes,
            is_latent=True,
        )
