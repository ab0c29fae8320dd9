"""The cache of one layer of attention: what a token takes, how long it is kept, and its work."""

from dataclasses import dataclass
from typing import Protocol

from kvquarry_core.plan import GroupKind
from kvquarry_core.work import Work
from kvquarry_tools.errors import CannotShare
from kvquarry_tools.models.serving import Precision

#: Keys and values.
_TWO = 2
ATTENTION_ALIGNMENT_BYTES = 16
#: A multiplication and an addition.
FLOPS_PER_PARAMETER = 2


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


@dataclass(frozen=True, slots=True)
class Trunk:
    """What all layers of a model have in common.

    Attributes:
        hidden_size: Numbers of a token between two layers.
        num_query_heads: Heads of queries in each layer of attention.
    """

    hidden_size: int
    num_query_heads: int


class Layer(Protocol):
    """A layer that keeps something from token to token."""

    def cache(self, precision: Precision) -> LayerCache:
        """What the layer keeps on one worker.

        Raises:
            CannotShare: The layer cannot be dealt out to so many workers.
            InvalidOption: It cannot be kept in that format.
        """
        ...

    def work(self, trunk: Trunk) -> Work:
        """What it computes on all workers together, without the feed-forward part beside it."""
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

    def work(self, trunk: Trunk) -> Work:
        """See :meth:`Layer.work`. Windows count as full, and chunks as half full on average."""
        queries = trunk.num_query_heads * self.head_dim
        keys = self.num_kv_heads * self.head_dim
        parameters = trunk.hidden_size * (_TWO * queries + _TWO * keys)
        # Each query meets a key, and each weight a value.
        pair_flops = _TWO * FLOPS_PER_PARAMETER * queries
        token_flops = FLOPS_PER_PARAMETER * parameters
        if self.kind is GroupKind.FULL_ATTENTION:
            return Work(token_flops, pair_flops)
        is_chunked = self.kind is GroupKind.CHUNKED_LOCAL
        num_met = self.window_tokens / 2 if is_chunked else self.window_tokens
        return Work(token_flops + pair_flops * num_met)

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
    """One latent vector a token, which every worker keeps whole (MLA).

    Attributes:
        kv_lora_rank: Numbers of the vector that keys and values are made of.
        rope_dim: Numbers of the part that carries the position.
        nope_dim: Numbers of the rest of a head's key.
        value_dim: Numbers of a head's value.
        q_lora_rank: Numbers of the vector that queries are made of; 0: the token itself.
    """

    kv_lora_rank: int
    rope_dim: int
    nope_dim: int
    value_dim: int
    q_lora_rank: int

    def cache(self, precision: Precision) -> LayerCache:
        """See :meth:`Layer.cache`."""
        return LayerCache(
            GroupKind.FULL_ATTENTION,
            bytes_per_token=(self.kv_lora_rank + self.rope_dim) * precision.kv_bytes,
            is_latent=True,
        )

    def work(self, trunk: Trunk) -> Work:
        """See :meth:`Layer.work`. Sparse attention counts as if it met all tokens."""
        hidden, num_heads = trunk.hidden_size, trunk.num_query_heads
        key_dim = self.nope_dim + self.rope_dim
        queries = (self.q_lora_rank or hidden) * num_heads * key_dim
        parameters = (
            hidden * self.q_lora_rank
            + queries
            + hidden * (self.kv_lora_rank + self.rope_dim)
            + self.kv_lora_rank * num_heads * (self.nope_dim + self.value_dim)
            + num_heads * self.value_dim * hidden
        )
        pair_flops = FLOPS_PER_PARAMETER * num_heads * (key_dim + self.value_dim)
        return Work(FLOPS_PER_PARAMETER * parameters, pair_flops)
