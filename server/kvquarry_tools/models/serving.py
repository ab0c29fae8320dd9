"""How a model is served, as far as that changes the bytes of its cache."""

from dataclasses import dataclass

from kvquarry_tools.errors import CannotShare, InvalidOption
from kvquarry_tools.models.dtypes import AUTO, KV_BYTES, STATE_BYTES, bytes_of

DEFAULT_BLOCK_TOKENS = 16


@dataclass(frozen=True, slots=True)
class Serving:
    """What of vLLM's settings changes the size of a cache.

    Attributes:
        block_tokens: Tokens per block (``--block-size``).
        tp: Workers that share every layer (``--tensor-parallel-size``); all bytes are one worker's.
        kv_dtype: Format of attention pages (``--kv-cache-dtype``).
        state_dtype: Format of recurrent states (``--mamba-ssm-cache-dtype``).
        num_speculative_tokens: Tokens drafted per step.
    """

    block_tokens: int = DEFAULT_BLOCK_TOKENS
    tp: int = 1
    kv_dtype: str = AUTO
    state_dtype: str = AUTO
    num_speculative_tokens: int = 0

    def check(self) -> None:
        """Refuse what no model can be served with.

        Raises:
            InvalidOption: A number is out of range, or a format is unknown.
        """
        for value, option in ((self.block_tokens, "--block-size"), (self.tp, "--tp")):
            if value < 1:
                raise InvalidOption(f"{option} {value} is too small; give a number from 1 on")
        if self.num_speculative_tokens < 0:
            raise InvalidOption(
                f"--spec-tokens {self.num_speculative_tokens} is negative; give 0 for none"
            )
        if self.kv_dtype != AUTO:
            bytes_of(self.kv_dtype, KV_BYTES, "--kv-dtype")
        if self.state_dtype != AUTO:
            bytes_of(self.state_dtype, STATE_BYTES, "--state-dtype")


@dataclass(frozen=True, slots=True)
class Precision:
    """Bytes per number, resolved, and how many workers share a layer.

    Attributes:
        activation_bytes: Of the model's own format, which convolutions keep.
        kv_bytes: Of keys and values.
        state_bytes: Of recurrent states; None: each layer's own default.
        tp: Workers that share every layer.
        num_speculative_tokens: Tokens drafted per step, which convolutions keep too.
    """

    activation_bytes: int
    kv_bytes: int
    state_bytes: int | None
    tp: int
    num_speculative_tokens: int

    def share(self, count: int, what: str) -> int:
        """One worker's part of heads or channels that must be dealt out evenly.

        Raises:
            CannotShare: They cannot be dealt out to so many workers.
        """
        if count % self.tp:
            raise CannotShare(f"--tp {self.tp} does not divide the model's {count} {what}")
        return count // self.tp
