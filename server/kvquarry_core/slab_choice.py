"""How large a slab is, and how it is cut for each size of block.

Every block divides the slab: attention as it is, since kernels split its blocks, and states by
being padded. More states in a larger slab leave less padding, but then any of them keeps the slab
from the other classes.
"""

import math
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass

#: Slabs up to this many times the smallest possible one are tried to get rid of padding.
_LARGEST_SLAB_FACTOR = 32
#: And not so large that fewer than this many fit: slabs are what classes exchange.
_FEWEST_SLABS = 8
_MOST_CANDIDATES = 1024
#: No block is padded by a larger share where a slab that keeps to it leaves so many slabs. With
#: fewer, classes get in each other's way: what is saved on padding is lost again, and more.
MOST_PADDING = 1 / 8
ENOUGH_SLABS = 24
#: What twice as many blocks of the largest class in a slab cost, as a share of the pool: measured
#: under churn (``loadtest/churn.py``) with one to 16 states a slab.
_PER_DOUBLING = 0.02
#: Strides tried for one of them, from either end.
_MOST_TRIED = 256


@dataclass(frozen=True, slots=True)
class Content:
    """What a class's blocks hold: states and attention never share one.

    Bytes that were last a state mean nothing to attention, whatever their number; as blocks of
    two classes they are known to be dirty.
    """

    page_bytes: int
    may_be_padded: bool


@dataclass(frozen=True, slots=True)
class Cut:
    """How a slab is cut for one class."""

    content: Content
    stride_bytes: int


@dataclass(frozen=True, slots=True)
class SlabShape:
    """A candidate: one slab cut for every class, the smallest stride first."""

    slab_bytes: int
    cuts: tuple[Cut, ...]

    @property
    def padding(self) -> float:
        """The largest share of a block that holds nothing, of all classes."""
        return max(1 - cut.content.page_bytes / cut.stride_bytes for cut in self.cuts)

    def cost(self, region_bytes: int) -> float:
        """Worst padding of a class, and what is lost to slabs that are only partly used.

        That is the share of the pool one slab pins, and more where even the largest blocks share a
        slab: then one of them keeps the rest of its slab from the other classes.
        """
        sharing = _PER_DOUBLING * math.log2(self.slab_bytes // self.cuts[-1].stride_bytes)
        return self.padding + self.slab_bytes / max(region_bytes, 1) + sharing


def choose_slab(contents: Set[Content], alignment_bytes: int, region_bytes: int) -> SlabShape:
    """The slab with the least padding and pinning, and bounded padding where memory allows.

    One class needs no slabs at all.

    Args:
        contents: What the blocks of each class hold.
        alignment_bytes: A padded stride is a multiple of this.
        region_bytes: The memory that is cut into slabs.
    """
    ordered = sorted(contents, key=_by_size)
    if len(ordered) == 1:
        page_bytes = ordered[0].page_bytes
        num_blocks = max(region_bytes // page_bytes, 1)
        return SlabShape(num_blocks * page_bytes, (Cut(ordered[0], page_bytes),))
    candidates = list(_candidates(ordered, alignment_bytes, region_bytes))
    bounded = [slab for slab in candidates if slab.padding <= MOST_PADDING]
    if any(region_bytes // slab.slab_bytes >= ENOUGH_SLABS for slab in bounded):
        candidates = bounded
    return min(candidates, key=lambda slab: slab.cost(region_bytes))


def _by_size(content: Content) -> tuple[int, bool]:
    return content.page_bytes, content.may_be_padded


def _candidates(
    contents: Sequence[Content], alignment: int, region_bytes: int
) -> Iterator[SlabShape]:
    unpadded = [content.page_bytes for content in contents if not content.may_be_padded]
    unit = math.lcm(alignment, *unpadded)
    smallest = -(-contents[-1].page_bytes // unit)
    largest = min(smallest * _LARGEST_SLAB_FACTOR, region_bytes // _FEWEST_SLABS // unit)
    step = max(1, (largest - smallest) // _MOST_CANDIDATES)
    for multiple in range(smallest, max(smallest, largest) + 1, step):
        slab_bytes = multiple * unit
        cuts = [_cut(content, slab_bytes, alignment) for content in contents]
        cuts.sort(key=lambda cut: (cut.stride_bytes, _by_size(cut.content)))
        yield SlabShape(slab_bytes, tuple(cuts))


def _cut(content: Content, slab_bytes: int, alignment: int) -> Cut:
    page_bytes = content.page_bytes
    if not content.may_be_padded:
        return Cut(content, page_bytes)
    return Cut(content, _stride(slab_bytes, page_bytes, alignment))


def _stride(slab_bytes: int, page_bytes: int, alignment: int) -> int:
    """The smallest aligned stride that holds a page and divides the slab.

    A few hundred are tried from the largest number of blocks down and from the smallest stride up;
    where neither finds one, a block takes the slab.
    """
    most = slab_bytes // page_bytes
    for num_blocks in range(most, max(most - _MOST_TRIED, 1), -1):
        if slab_bytes % (num_blocks * alignment) == 0:
            return slab_bytes // num_blocks
    least = -(-page_bytes // alignment)
    for units in range(least, least + _MOST_TRIED):
        if slab_bytes % (units * alignment) == 0:
            return units * alignment
    return slab_bytes
