"""The aliased tensors of a pool: one memory, seen as blocks of several sizes. Needs torch alone.

The layers of every group lie in the same bytes, in strides of their own size class. With layers
outermost, layer ``l`` of each group has region ``l`` (:mod:`kvquarry_core.worker_layout`)::

    region l          | ........................................................ |
    attention layer l |  0  |  1  |  2  |  3  |  4  |  5  |  6  |  7  |  8  |  9  |
    state layer l     |   conv 0 | ssm 0    |   conv 1 | ssm 1    |   conv 2 | ...

Block ids say which bytes belong to whom; nothing here does.
"""

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch

from kvquarry_client.kernel_blocks import KernelBlocks
from kvquarry_core.ids import ClassId, GroupId
from kvquarry_core.plan import Plan
from kvquarry_core.worker_layout import Arrangement, LayerView, planned_views

_DIGEST_FORMAT = "kvquarry views 1"
_WIDEST_FIRST = (torch.int64, torch.int32, torch.int16, torch.int8)


@dataclass(frozen=True, slots=True)
class Part:
    """One tensor's share of a block in one layer.

    Attributes:
        shape: Of one block, without the dimension of blocks: ``(heads, tokens, content)`` for
            attention, a state's own shape for states.
        dtype: Of its elements.
    """

    shape: tuple[int, ...]
    dtype: torch.dtype

    @property
    def num_bytes(self) -> int:
        """Bytes of one block's share."""
        return math.prod(self.shape) * self.dtype.itemsize


#: What a block of a group holds in one layer: its parts, packed one after another.
Page = tuple[Part, ...]
#: A layer's tensors, one per part: ``[num_blocks, *part.shape]``.
LayerTensors = tuple[torch.Tensor, ...]


def build_views(
    plan: Plan,
    buffer: torch.Tensor,
    pages: Sequence[Page],
    arrangement: Arrangement = Arrangement.LAYER_OUTERMOST,
) -> list[list[LayerTensors]]:
    """The tensors of every layer of every group; all of them are views of ``buffer``.

    Args:
        plan: How the memory is cut.
        buffer: At least ``plan.pool_bytes`` contiguous bytes, of any dtype of one byte, whose
            address every part's dtype may start at.
        pages: What a block holds in one layer, by group.
        arrangement: Whether a layer's blocks lie together, or a block's layers.

    Returns:
        ``views[group][layer][part]`` of shape ``[num_blocks, *part.shape]`` and the part's dtype.
        ``num_blocks`` is the size class's, the null block included.

    Raises:
        ValueError: The buffer is too small, or a page is not the size the plan was made for.
    """
    if buffer.element_size() != 1 or not buffer.is_contiguous():
        raise ValueError("give the buffer as contiguous elements of one byte, such as torch.int8")
    if buffer.numel() < plan.pool_bytes:
        raise ValueError(f"the buffer has {buffer.numel()} bytes, the plan needs {plan.pool_bytes}")
    _check_pages(plan, pages)
    flat = buffer.view(torch.int8).view(-1)
    views: list[list[LayerTensors]] = [[] for _ in plan.groups]
    for place in planned_views(plan, arrangement):
        views[place.group].append(_layer_tensors(flat, place, pages[place.group]))
    return views


def whole_blocks(
    plan: Plan,
    buffer: torch.Tensor,
    size_class: ClassId,
    arrangement: Arrangement = Arrangement.LAYER_OUTERMOST,
) -> torch.Tensor:
    """The blocks of a size class with all their layers: to zero or to copy them, whoever uses them.

    Args:
        plan: How the memory is cut.
        buffer: As for :func:`build_views`.
        size_class: The class whose blocks are meant.
        arrangement: As for :func:`build_views`.

    Returns:
        Integers of shape ``[num_blocks, num_regions, stride]``, the widest that divide a stride.
    """
    geometry = plan.classes[size_class]
    stride = geometry.stride_bytes
    if arrangement is Arrangement.LAYER_OUTERMOST:
        strides = (stride, plan.region_bytes, 1)
    else:
        strides = (stride * plan.num_regions, stride, 1)
    flat = buffer.view(torch.int8).view(-1)
    blocks = flat.as_strided((geometry.num_blocks, plan.num_regions, stride), strides)
    common = math.gcd(*strides[:2], stride)
    return blocks.view(next(one for one in _WIDEST_FIRST if common % one.itemsize == 0))


def layer_view(
    layer: str,
    group: GroupId,
    tensors: Sequence[torch.Tensor],
    kernel_blocks: KernelBlocks | None = None,
) -> LayerView:
    """Where a layer's blocks lie, read off the tensors that were built for it.

    Args:
        layer: The layer's name, for messages.
        group: The KV cache group it belongs to.
        tensors: The layer's tensors, blocks in dimension 0; the first one starts the page.
        kernel_blocks: What dimension 0 counts; None for whole blocks.
    """
    first = tensors[0]
    per_block = kernel_blocks.per_block if kernel_blocks else 1
    return LayerView(
        layer=layer,
        group=group,
        offset_bytes=_offset_bytes(first),
        stride_bytes=first.stride(0) * first.element_size() * per_block,
        num_blocks=first.shape[0] // per_block,
    )


def views_digest(layers: Mapping[str, Sequence[torch.Tensor]]) -> bytes:
    """Digest of offset, shape, stride (bytes) and dtype of every tensor of every layer.

    Two workers whose digests are equal put equal block ids on equal bytes of their buffers.

    Args:
        layers: The tensors of each layer by its name; the order of the names does not matter.
    """
    digest = hashlib.sha256(_DIGEST_FORMAT.encode())
    for name in sorted(layers):
        for index, tensor in enumerate(layers[name]):
            strides = [stride * tensor.element_size() for stride in tensor.stride()]
            facts = (name, index, _offset_bytes(tensor), list(tensor.shape), strides, tensor.dtype)
            digest.update(repr(facts).encode())
    return digest.digest()


def _check_pages(plan: Plan, pages: Sequence[Page]) -> None:
    if len(pages) != len(plan.groups):
        raise ValueError(f"the plan has {len(plan.groups)} groups, not {len(pages)}")
    for index, (group, page) in enumerate(zip(plan.groups, pages, strict=True)):
        page_bytes = sum(part.num_bytes for part in page)
        if page_bytes != group.page_bytes:
            raise ValueError(
                f"the parts of group {index} take {page_bytes} bytes a block, the plan was made "
                f"for {group.page_bytes}"
            )


def _layer_tensors(flat: torch.Tensor, place: LayerView, page: Page) -> LayerTensors:
    page_bytes = sum(part.num_bytes for part in page)
    blocks = flat[place.offset_bytes :].as_strided(
        (place.num_blocks, page_bytes), (place.stride_bytes, 1)
    )
    tensors = []
    start = 0
    for part in page:
        share = blocks[:, start : start + part.num_bytes].view(part.dtype)
        tensors.append(share.view(place.num_blocks, *part.shape))
        start += part.num_bytes
    return tuple(tensors)


def _offset_bytes(tensor: torch.Tensor) -> int:
    """Byte of a tensor's first element within its storage."""
    return int(tensor.storage_offset()) * tensor.element_size()
