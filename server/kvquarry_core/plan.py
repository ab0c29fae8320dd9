"""From the groups' page sizes and the memory to size classes and slabs.

The pool is ``num_regions`` equal stretches of memory, one per layer of the largest group.
Every region is cut the same way, so one block id names the same bytes in each of them::

    region    |<------- slab 0 ------->|<------- slab 1 ------->| ...
    class 0   | 0 | 1 | 2 | 3 | 4 | 5  | 6 | 7 | 8 | 9 |10 |11  |     attention pages
    class 1   |     0     |     1      |     2     |     3      |     states

Block ``i`` of a class starts at byte ``i * stride_bytes`` of its region, for any rational
ratio of the sizes. A slab belongs to one class at a time. States are padded by an eighth at most
where memory allows that (:mod:`kvquarry_core.slab_choice` says when), attention never.

Sources: allocation sizes decoupled from block size, vllm-project/vllm#46251; kernel blocks
decoupled from manager blocks, #24486 (kernel block ``j`` of block ``b`` is ``b * k + j``,
which is why attention pages are never padded).
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum

from kvquarry_core.errors import PlanError, Reason
from kvquarry_core.ids import ClassId, GroupId, KindId
from kvquarry_core.slab_choice import Content, SlabShape, choose_slab


class GroupKind(Enum):
    """Kind of attention, which decides a group's rules."""

    #: Multi-head latent attention follows the same rules.
    FULL_ATTENTION = "full_attention"
    SLIDING_WINDOW = "sliding_window"
    CHUNKED_LOCAL = "chunked_local"
    RECURRENT_STATE = "recurrent_state"
    #: Written once from the encoder's output, never shared.
    CROSS_ATTENTION = "cross_attention"
    #: A fixed piece per request that is never shared and never hit.
    SCRATCH = "scratch"


_NEVER_HIT = (GroupKind.CROSS_ATTENTION, GroupKind.SCRATCH)
_WINDOWED = (GroupKind.SLIDING_WINDOW, GroupKind.CHUNKED_LOCAL)


@dataclass(frozen=True, slots=True)
class GroupSpec:
    """What the pool must know of one KV cache group.

    Attributes:
        kind: The rules the group follows.
        block_tokens: Tokens per block; for states, tokens between checkpoints.
        page_bytes: Bytes of one block in one layer.
        num_layers: Layers that share the group's block table.
        num_speculative_blocks: Extra states a request holds for rejected drafts.
        alignment_bytes: A padded stride is a multiple of this.
        window_tokens: Tokens a sliding window spans, or tokens of a local chunk; 0 for others.
        is_draft: The layers belong to a draft model: what they keep of a token depends on the next
            token, too, see :attr:`num_hashes_beyond`.
    """

    kind: GroupKind
    block_tokens: int
    page_bytes: int
    num_layers: int
    num_speculative_blocks: int = 0
    alignment_bytes: int = 16
    window_tokens: int = 0
    is_draft: bool = False

    @property
    def may_be_padded(self) -> bool:
        """Kernels split attention blocks, so only states may be padded."""
        return self.kind is GroupKind.RECURRENT_STATE

    @property
    def may_be_hit(self) -> bool:
        """Whether a hash can name what a block holds, so that others may use it."""
        return self.kind not in _NEVER_HIT

    @property
    def may_be_draft(self) -> bool:
        """A draft model's states would depend on tokens beyond the prefix that their hash names."""
        return self.kind is GroupKind.FULL_ATTENTION or self.kind in _WINDOWED

    @property
    def num_hashes_beyond(self) -> int:
        """Hash units beyond a row's end that its name covers: one for a draft model.

        Whoever finds such a row goes on as whoever wrote it did, so its last slot fits, too.
        """
        return int(self.is_draft)


@dataclass(frozen=True, slots=True)
class SizeClass:
    """Blocks of one byte size.

    Attributes:
        page_bytes: Bytes of a block in one region that hold content.
        stride_bytes: Bytes from one block to the next; the rest is padding.
        blocks_per_slab: Blocks of this class in one slab.
        num_blocks: Ids run from 0 to this, exclusive; 0 is the null block.
        num_usable_blocks: The most blocks that can ever be handed out.
    """

    page_bytes: int
    stride_bytes: int
    blocks_per_slab: int
    num_blocks: int
    num_usable_blocks: int


@dataclass(frozen=True, slots=True)
class Plan:
    """The geometry of one pool; equal inputs give an equal plan on every machine.

    Attributes:
        groups: The groups, by :data:`GroupId`.
        kinds: For each :data:`KindId`, the groups with equal specs but for their number of layers:
            layers that do not divide evenly leave a smaller group. They are looked up, committed
            and evicted together.
        classes: Size classes by :data:`ClassId`, smallest stride first.
        class_of_group: The class each group takes its blocks from.
        hash_tokens: Tokens per block hash: divides the ``block_tokens`` of every group that may be
            hit.
        num_regions: Stretches of memory, one per layer of the largest group.
        slab_bytes: Bytes of a slab in one region.
        num_slabs: Slabs in the pool. Slab 0 also holds the null blocks.
        num_reserved_blocks: Blocks of class 0 that the null blocks cover.
    """

    groups: tuple[GroupSpec, ...]
    kinds: tuple[tuple[GroupId, ...], ...]
    classes: tuple[SizeClass, ...]
    class_of_group: tuple[ClassId, ...]
    hash_tokens: int
    num_regions: int
    slab_bytes: int
    num_slabs: int
    num_reserved_blocks: int

    @property
    def region_bytes(self) -> int:
        """Bytes of one region: ``num_slabs * slab_bytes``."""
        return self.num_slabs * self.slab_bytes

    @property
    def pool_bytes(self) -> int:
        """Bytes the workers must allocate."""
        return self.region_bytes * self.num_regions

    def block_bytes(self, size_class: ClassId) -> int:
        """Bytes one block takes in the pool, padding included."""
        return self.classes[size_class].stride_bytes * self.num_regions

    def could_hold(self, demand: Sequence[int]) -> bool:
        """Whether an empty pool holds ``demand[c]`` blocks of every class ``c`` at once."""
        return self.slabs_for(demand) <= self.num_slabs

    def slabs_for(self, demand: Sequence[int]) -> int:
        """Slabs that hold ``demand[c]`` blocks of every class ``c``, and the null blocks."""
        num_slabs = 1
        for index, (size_class, wanted) in enumerate(zip(self.classes, demand, strict=True)):
            per_slab = size_class.blocks_per_slab
            beside_nulls = per_slab - self.num_reserved_blocks if index == 0 else 0
            num_slabs += -(-max(wanted - beside_nulls, 0) // per_slab)
        return num_slabs

    def by_class(self, by_group: Sequence[int]) -> list[int]:
        """Blocks by size class, of blocks by group."""
        demand = [0] * len(self.classes)
        for size_class, num_blocks in zip(self.class_of_group, by_group, strict=True):
            demand[size_class] += num_blocks
        return demand

    def groups_of_class(self, size_class: ClassId) -> tuple[GroupId, ...]:
        """The groups that take their blocks from a class."""
        owners = enumerate(self.class_of_group)
        return tuple(GroupId(group) for group, owner in owners if owner == size_class)

    def class_of_kind(self, kind: KindId) -> ClassId:
        """The class all groups of a kind take their blocks from."""
        return self.class_of_group[self.kinds[kind][0]]

    def spec_of_kind(self, kind: KindId) -> GroupSpec:
        """The spec all groups of a kind share, but for their number of layers."""
        return self.groups[self.kinds[kind][0]]


def make_plan(groups: Sequence[GroupSpec], pool_bytes: int) -> Plan:
    """Cut ``pool_bytes`` into slabs and size classes that fit ``groups``.

    Raises:
        PlanError: The groups contradict each other, or the memory does not hold the null
            blocks and one block of every class; the message says how much is needed.
    """
    _check_groups(groups)
    num_regions = max(group.num_layers for group in groups)
    region_bytes = pool_bytes // num_regions
    alignment = math.lcm(*(group.alignment_bytes for group in groups if group.may_be_padded))
    slab = choose_slab({_content(group) for group in groups}, alignment, region_bytes)
    num_slabs = region_bytes // slab.slab_bytes
    reserved = -(-slab.cuts[-1].stride_bytes // slab.cuts[0].stride_bytes)
    contents = [cut.content for cut in slab.cuts]
    plan = Plan(
        groups=tuple(groups),
        kinds=_kinds(groups),
        classes=tuple(_size_classes(slab, num_slabs, reserved)),
        class_of_group=tuple(ClassId(contents.index(_content(group))) for group in groups),
        hash_tokens=_hash_tokens(groups),
        num_regions=num_regions,
        slab_bytes=slab.slab_bytes,
        num_slabs=num_slabs,
        num_reserved_blocks=reserved,
    )
    if not plan.could_hold([1] * len(plan.classes)):
        needed = (1 + len(plan.classes)) * slab.slab_bytes * num_regions
        slabs = "1 slab" if num_slabs == 1 else f"{num_slabs} slabs"
        raise PlanError(
            Reason.POOL_TOO_SMALL,
            f"{pool_bytes} bytes hold {slabs} of {slab.slab_bytes * num_regions} bytes; "
            f"give the KV cache at least {needed} bytes",
        )
    return plan


def _content(group: GroupSpec) -> Content:
    return Content(group.page_bytes, group.may_be_padded)


def _check_groups(groups: Sequence[GroupSpec]) -> None:
    if not groups:
        raise PlanError(Reason.INVALID_GROUPS, "a pool needs at least one KV cache group")
    for index, group in enumerate(groups):
        sizes = (group.block_tokens, group.page_bytes, group.num_layers, group.alignment_bytes)
        if min(sizes) < 1 or group.num_speculative_blocks < 0:
            raise PlanError(Reason.INVALID_GROUPS, f"group {index} has a size below 1: {group}")
        if (group.window_tokens > 0) != (group.kind in _WINDOWED) or group.window_tokens < 0:
            raise PlanError(
                Reason.INVALID_GROUPS,
                f"group {index} has a window of {group.window_tokens} tokens: a group of kind "
                f"{group.kind.value} has {'one' if group.kind in _WINDOWED else 'none'}: {group}",
            )
        if group.is_draft and not group.may_be_draft:
            raise PlanError(
                Reason.INVALID_GROUPS, f"group {index} of a draft model is not attention: {group}"
            )


def _hash_tokens(groups: Sequence[GroupSpec]) -> int:
    hit = [group.block_tokens for group in groups if group.may_be_hit]
    return math.gcd(*(hit or [group.block_tokens for group in groups]))


def _size_classes(slab: SlabShape, num_slabs: int, reserved: int) -> Iterator[SizeClass]:
    for index, cut in enumerate(slab.cuts):
        per_slab = slab.slab_bytes // cut.stride_bytes
        num_blocks = per_slab * num_slabs
        usable = max(num_blocks - (reserved if index == 0 else per_slab), 0)
        yield SizeClass(cut.content.page_bytes, cut.stride_bytes, per_slab, num_blocks, usable)


def _kinds(groups: Sequence[GroupSpec]) -> tuple[tuple[GroupId, ...], ...]:
    """Full attention first: its left-to-right scan bounds the rest."""
    members: dict[GroupSpec, list[GroupId]] = {}
    for index, group in enumerate(groups):
        members.setdefault(replace(group, num_layers=1), []).append(GroupId(index))
    ordered = sorted(members.items(), key=lambda item: item[0].kind is not GroupKind.FULL_ATTENTION)
    return tuple(tuple(ids) for _, ids in ordered)
