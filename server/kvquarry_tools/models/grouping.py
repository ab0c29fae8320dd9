"""Layers to groups, by vLLM's rule: layers of one format, in groups of equal length.

Source: ``_get_kv_cache_groups_uniform_page_size`` (vLLM 0.32), read and written anew. It never
looks at a page's size, so the rule is the same whether pages are made equal first, as stock vLLM
does, or left as they are.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

#: Formats whose layers differ by less than this factor share the larger number, padded.
_CLOSE = 1.5

Format = TypeVar("Format")


@dataclass(frozen=True, slots=True)
class LayerGroup(Generic[Format]):
    """Layers of one format that share a block table."""

    format: Format
    num_layers: int


def group_layers(layers: Sequence[Format]) -> tuple[LayerGroup[Format], ...]:
    """Groups in the order in which their formats first occur among the layers."""
    counts = Counter(layers)
    fewest, most = min(counts.values()), max(counts.values())
    group_size = most if most < fewest * _CLOSE else fewest
    return tuple(
        LayerGroup(layer_format, num_layers)
        for layer_format, count in counts.items()
        for num_layers in _dealt_out(count, -(-count // group_size))
    )


def _dealt_out(count: int, num_groups: int) -> list[int]:
    """Layer ``i`` goes to group ``i % num_groups``: the first groups are the longer ones."""
    return [len(range(index, count, num_groups)) for index in range(num_groups)]
