"""The uniform pool that stock vLLM makes of a model's layers.

One page size for all: attention blocks are blown up until a page is at least as large as a state,
states are padded to that page, and pages of several attention sizes are made equal by more tokens
per block. Sources: ``Platform._align_hybrid_block_size`` and ``unify_kv_cache_spec_page_size``
(vLLM 0.32), read and written anew.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from kvquarry_core.plan import GroupSpec
from kvquarry_tools.models.grouping import group_layers
from kvquarry_tools.models.layers import LayerCache

#: The smallest block that attention kernels on GPUs take.
KERNEL_TOKENS = 16
#: Kernels for latent attention want blocks in whole multiples of this many tokens in a hybrid.
_LATENT_TOKENS = 128


@dataclass(frozen=True, slots=True)
class StockLayout:
    """What stock vLLM makes of a model.

    Attributes:
        block_tokens: ``cache_config.block_size`` after it was blown up: what hits step by.
        page_bytes: Bytes of one block in one layer, the same for all.
        groups: The groups; all have pages of ``page_bytes``.
        state_bytes: Bytes of a state proper, 0 without states.
    """

    block_tokens: int
    page_bytes: int
    groups: tuple[GroupSpec, ...]
    state_bytes: int

    @property
    def block_bytes(self) -> int:
        """Bytes of one block of the pool: a page in every layer of the largest group."""
        return self.page_bytes * max(group.num_layers for group in self.groups)

    @property
    def state_padding(self) -> float:
        """Share of a state's block that holds nothing: on the same base as kvquarry's padding."""
        return 1 - self.state_bytes / self.page_bytes if self.state_bytes else 0.0


@dataclass(frozen=True, slots=True)
class _Page:
    """A layer's format with the page it is given."""

    cache: LayerCache
    block_tokens: int
    page_bytes: int


def stock_layout(layers: Sequence[LayerCache], block_tokens: int) -> StockLayout:
    """The layout for a block size that a user asks for."""
    inflated = stock_block_tokens(layers, block_tokens)
    pages = _unified([_page(cache, inflated) for cache in layers])
    groups = tuple(_group_spec(group.format, group.num_layers) for group in group_layers(pages))
    state_bytes = max(cache.state_bytes for cache in layers)
    return StockLayout(inflated, pages[0].page_bytes, groups, state_bytes)


def stock_block_tokens(layers: Sequence[LayerCache], block_tokens: int) -> int:
    """Tokens per attention block after the page was made at least as large as a state."""
    state_bytes = max(cache.state_bytes for cache in layers)
    token_bytes = max(cache.bytes_per_token for cache in layers)
    if not state_bytes or not token_bytes:
        return block_tokens
    step = max(KERNEL_TOKENS, block_tokens)
    if any(cache.is_latent for cache in layers):
        step = max(step, _LATENT_TOKENS)
    needed = step * -(-state_bytes // (step * token_bytes))
    return max(block_tokens, KERNEL_TOKENS * -(-needed // KERNEL_TOKENS))


def _page(cache: LayerCache, block_tokens: int) -> _Page:
    return _Page(cache, block_tokens, cache.page_bytes(block_tokens))


def _unified(pages: Sequence[_Page]) -> list[_Page]:
    """Pages of one size: more tokens where that fits, else padding."""
    largest = max(page.page_bytes for page in pages)
    return [_grown(page, largest) for page in pages]


def _grown(page: _Page, page_bytes: int) -> _Page:
    if page.cache.state_bytes or page_bytes % page.page_bytes:
        return replace(page, page_bytes=page_bytes)
    factor = page_bytes // page.page_bytes
    return replace(page, page_bytes=page_bytes, block_tokens=page.block_tokens * factor)


def _group_spec(page: _Page, num_layers: int) -> GroupSpec:
    return GroupSpec(
        kind=page.cache.kind,
        block_tokens=page.block_tokens,
        page_bytes=page.page_bytes,
        num_layers=num_layers,
        num_speculative_blocks=page.cache.num_speculative_blocks,
        alignment_bytes=page.cache.alignment_bytes,
        window_tokens=page.cache.window_tokens,
    )
