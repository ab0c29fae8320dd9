"""A model, and the cache it keeps when it is served."""

from dataclasses import dataclass, replace

from kvquarry_core.plan import GroupSpec
from kvquarry_core.work import Work
from kvquarry_tools.errors import CannotShare, InvalidOption
from kvquarry_tools.models.dtypes import (
    ACTIVATION_BYTES,
    AUTO,
    KV_BYTES,
    STATE_BYTES,
    bytes_of,
)
from kvquarry_tools.models.grouping import group_layers
from kvquarry_tools.models.layers import Layer, LayerCache
from kvquarry_tools.models.serving import DEFAULT_BLOCK_TOKENS, Precision, Serving
from kvquarry_tools.models.stock import StockLayout, stock_layout

#: As many workers as share a layer in the largest deployments.
_MOST_ADVISED_TP = 64


@dataclass(frozen=True, slots=True)
class Model:
    """What a configuration says of a model's cache.

    Attributes:
        name: The name it was asked for by.
        architecture: The architecture that vLLM would run.
        layers: The layers that keep something, in the model's order.
        dtype: Format of its activations.
        kv_dtype: Format that the checkpoint asks of its cache; ``auto``: that of its activations.
        num_query_heads: Heads of queries, which workers share, too; None: the configuration does
            not say.
        max_tokens: Tokens the model was made for; None: the configuration does not say.
        notes: What the figures leave out.
        work: What it computes; None: the configuration does not say.
    """

    name: str
    architecture: str
    layers: tuple[Layer, ...]
    dtype: str
    kv_dtype: str = AUTO
    num_query_heads: int | None = None
    max_tokens: int | None = None
    notes: tuple[str, ...] = ()
    work: Work | None = None

    def served(self, serving: Serving) -> "ServedModel":
        """The cache it keeps on one worker when it is served like this.

        Raises:
            InvalidOption: The model cannot be served like this; the message says what to change.
        """
        serving.check()
        try:
            return ServedModel(self, serving, self._caches(self._precision(serving)))
        except CannotShare as error:
            raise InvalidOption(f"{error}; {self._advice(serving)}") from None

    def groups(
        self,
        block_tokens: int = DEFAULT_BLOCK_TOKENS,
        *,
        tp: int = 1,
        kv_dtype: str = AUTO,
        state_dtype: str = AUTO,
        num_speculative_tokens: int = 0,
    ) -> tuple[GroupSpec, ...]:
        """The groups of a mixed-size pool: see :class:`Serving` and :attr:`ServedModel.groups`."""
        serving = Serving(block_tokens, tp, kv_dtype, state_dtype, num_speculative_tokens)
        return self.served(serving).groups

    def _caches(self, precision: Precision) -> tuple[LayerCache, ...]:
        if self.num_query_heads:
            precision.share(self.num_query_heads, "heads of queries")
        made = {layer: layer.cache(precision) for layer in dict.fromkeys(self.layers)}
        return tuple(made[layer] for layer in self.layers)

    def _advice(self, serving: Serving) -> str:
        """Numbers of workers that every layer can be dealt out to."""
        fitting = [tp for tp in range(1, _MOST_ADVISED_TP + 1) if self._can_share(serving, tp)]
        return f"choose one of: {', '.join(map(str, fitting))}"

    def _can_share(self, serving: Serving, tp: int) -> bool:
        try:
            self._caches(self._precision(replace(serving, tp=tp)))
        except CannotShare:
            return False
        return True

    def _precision(self, serving: Serving) -> Precision:
        return Precision(
            activation_bytes=ACTIVATION_BYTES[self.dtype],
            kv_bytes=self._kv_bytes(serving.kv_dtype),
            state_bytes=None
            if serving.state_dtype == AUTO
            else bytes_of(serving.state_dtype, STATE_BYTES, "--state-dtype"),
            tp=serving.tp,
            num_speculative_tokens=serving.num_speculative_tokens,
        )

    def _kv_bytes(self, kv_dtype: str) -> int:
        if kv_dtype != AUTO:
            return bytes_of(kv_dtype, KV_BYTES, "--kv-dtype")
        if self.kv_dtype == AUTO:
            return ACTIVATION_BYTES[self.dtype]
        if self.kv_dtype not in KV_BYTES:
            raise InvalidOption(
                f"{self.name} asks for a cache of {self.kv_dtype}, whose pages are not known here; "
                f"give another with --kv-dtype: {', '.join(KV_BYTES)}"
            )
        return KV_BYTES[self.kv_dtype]


@dataclass(frozen=True, slots=True)
class ServedModel:
    """A model's cache on one worker.

    Attributes:
        model: The model.
        serving: How it is served.
        layers: What each layer keeps.
    """

    model: Model
    serving: Serving
    layers: tuple[LayerCache, ...]

    @property
    def groups(self) -> tuple[GroupSpec, ...]:
        """The groups of a mixed-size pool, each layer with a page of its own size."""
        block_tokens = self.serving.block_tokens
        return tuple(
            GroupSpec(
                kind=group.format.kind,
                block_tokens=block_tokens,
                page_bytes=group.format.page_bytes(block_tokens),
                num_layers=group.num_layers,
                num_speculative_blocks=group.format.num_speculative_blocks,
                alignment_bytes=group.format.alignment_bytes,
                window_tokens=group.format.window_tokens,
            )
            for group in group_layers(self.layers)
        )

    @property
    def bytes_per_token(self) -> int:
        """Bytes that one token takes in all attention layers, windowed ones included."""
        return sum(layer.bytes_per_token for layer in self.layers)

    @property
    def checkpoint_bytes(self) -> int:
        """Bytes of one checkpoint: a state in every recurrent layer."""
        return sum(layer.state_bytes for layer in self.layers)

    @property
    def stock(self) -> StockLayout:
        """The uniform pool that stock vLLM would make."""
        return stock_layout(self.layers, self.serving.block_tokens)
