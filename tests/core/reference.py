"""The same questions answered naively: brute force over sets, sharing no code with the core."""

import functools
from collections.abc import Container, Sequence

from kvquarry_core.ids import BlockHash, BlockId, KindId
from kvquarry_core.plan import GroupKind, GroupSpec, Plan


def longest_hit(
    plan: Plan,
    findable: Container[tuple[KindId, BlockHash]],
    hashes: Sequence[BlockHash],
    max_tokens: int,
) -> int:
    """Every length from the longest to the shortest, put to every kind."""
    if not can_hit(plan):
        return 0
    hashes = hashes[: max_tokens // plan.hash_tokens]
    kinds = [KindId(kind) for kind in range(len(plan.kinds))]
    for num_tokens in range(len(hashes) * plan.hash_tokens, 0, -1):
        if all(accepts(plan, kind, findable, hashes, num_tokens) for kind in kinds):
            return num_tokens
    return 0


def can_hit(plan: Plan) -> bool:
    """Whether hashes name all that a request reads: an encoder's input is not among it."""
    kinds = {spec.kind for spec in plan.groups}
    return GroupKind.CROSS_ATTENTION not in kinds and kinds != {GroupKind.SCRATCH}


def accepts(
    plan: Plan,
    kind: KindId,
    findable: Container[tuple[KindId, BlockHash]],
    hashes: Sequence[BlockHash],
    num_tokens: int,
) -> bool:
    """Whether one kind has what it needs to go on after exactly ``num_tokens`` tokens."""
    spec = plan.spec_of_kind(kind)
    if spec.kind is GroupKind.SCRATCH:
        return True
    if num_tokens % spec.block_tokens or num_tokens > len(hashes) * plan.hash_tokens:
        return False
    names = [name_at(plan, spec, hashes, at) for at in positions_read(spec, num_tokens)]
    return all(name is not None and (kind, name) in findable for name in names)


def name_at(
    plan: Plan, spec: GroupSpec, hashes: Sequence[BlockHash], position: int
) -> BlockHash | None:
    """What a row is found under: all tokens to its end, and a draft's by those of one unit more."""
    end = (position + 1) * spec.block_tokens + (plan.hash_tokens if spec.is_draft else 0)
    unit = end // plan.hash_tokens
    return hashes[unit - 1] if unit <= len(hashes) else None


def positions_read(spec: GroupSpec, num_tokens: int) -> list[int]:
    """The positions that token number ``num_tokens`` reads, itself left out."""
    return sorted({token // spec.block_tokens for token in _tokens_read(spec, num_tokens)})


def _tokens_read(spec: GroupSpec, num_tokens: int) -> Sequence[int]:
    match spec.kind:
        case GroupKind.FULL_ATTENTION:
            return range(num_tokens)
        case GroupKind.RECURRENT_STATE:
            return range(num_tokens)[-1:]
        case GroupKind.SLIDING_WINDOW:
            return [t for t in range(num_tokens) if num_tokens - t < spec.window_tokens]
        case GroupKind.CHUNKED_LOCAL:
            chunk = num_tokens // spec.window_tokens
            return [t for t in range(num_tokens) if t // spec.window_tokens == chunk]
    return ()


def new_blocks(plan: Plan, hit_tokens: int, num_tokens: int, encoder_tokens: int = 0) -> list[int]:
    """New blocks by group, to go from a hit to ``num_tokens`` in one chunk."""
    return [
        len(positions_written(spec, 0, encoder_tokens))
        if spec.kind is GroupKind.CROSS_ATTENTION
        else _new_blocks(spec, hit_tokens, num_tokens)
        for spec in plan.groups
    ]


def _new_blocks(spec: GroupSpec, hit_tokens: int, num_tokens: int) -> int:
    if num_tokens <= hit_tokens:
        return 0
    if spec.kind is GroupKind.RECURRENT_STATE:
        return 1 + spec.num_speculative_blocks
    if spec.kind is GroupKind.SCRATCH:
        return 1
    return len(positions_written(spec, hit_tokens, num_tokens))


def positions_written(spec: GroupSpec, first_token: int, end_token: int) -> set[int]:
    """The positions of tokens ``[first_token, end_token)``."""
    return {token // spec.block_tokens for token in range(first_token, end_token)}


def most_new_blocks(
    plan: Plan, hit_tokens: int, num_tokens: int, in_flight_tokens: int, encoder_tokens: int = 0
) -> list[int]:
    """New blocks by group that are ever held at once, whatever the chunks on the way."""
    in_one_chunk = new_blocks(plan, hit_tokens, num_tokens, encoder_tokens)
    return [
        min(blocks, most_held(spec, in_flight_tokens)) if is_windowed(spec) else blocks
        for spec, blocks in zip(plan.groups, in_one_chunk, strict=True)
    ]


@functools.cache
def most_held(spec: GroupSpec, in_flight_tokens: int) -> int:
    """The most blocks of a window, wherever it stands, and of the tokens in flight."""
    start = spec.window_tokens
    return max(
        len(
            {*positions_read(spec, processed)}
            | positions_written(spec, processed, processed + in_flight_tokens)
        )
        for processed in range(start, start + spec.window_tokens * spec.block_tokens + 1)
    )


def held_blocks(plan: Plan, processed: int, num_tokens: int, encoder_tokens: int = 0) -> list[int]:
    """Blocks by group that going from ``processed`` to ``num_tokens`` takes at least."""
    in_all = new_blocks(plan, 0, num_tokens, encoder_tokens)
    return [
        len({*positions_read(spec, processed)} | positions_written(spec, processed, num_tokens))
        if is_windowed(spec)
        else blocks
        for spec, blocks in zip(plan.groups, in_all, strict=True)
    ]


def held_positions(spec: GroupSpec, processed: int) -> set[int]:
    """What token number ``processed`` reads, and where it is written."""
    return {*positions_read(spec, processed), processed // spec.block_tokens}


def is_windowed(spec: GroupSpec) -> bool:
    """Whether tokens reach back a limited way."""
    return spec.kind in (GroupKind.SLIDING_WINDOW, GroupKind.CHUNKED_LOCAL)


def by_class(plan: Plan, by_group: Sequence[int]) -> list[int]:
    """Blocks by size class."""
    return [
        sum(n for owner, n in zip(plan.class_of_group, by_group, strict=True) if owner == index)
        for index in range(len(plan.classes))
    ]


def fits(plan: Plan, used: Sequence[set[BlockId]], demand: Sequence[int]) -> bool:
    """Whether blocks can be had beside the ``used`` ones if everything else may go.

    A slab with a used block stays with its class and offers the rest of its blocks to it; any
    other slab can go to any class. Slab 0, where the null blocks lie, stays with class 0.
    """
    pinned = {0: 0}
    in_use = [0] * plan.num_slabs
    for index, blocks in enumerate(used):
        for block in blocks:
            slab = block // plan.classes[index].blocks_per_slab
            assert pinned.setdefault(slab, index) == index, f"slab {slab} has two owners"
            in_use[slab] += 1
    offered = [0] * len(plan.classes)
    for slab, index in pinned.items():
        offered[index] += plan.classes[index].blocks_per_slab - in_use[slab]
    slabs_wanted = sum(
        -(-max(wanted - offer, 0) // geometry.blocks_per_slab)
        for wanted, offer, geometry in zip(demand, offered, plan.classes, strict=True)
    )
    return slabs_wanted <= plan.num_slabs - len(pinned)


def null_blocks(plan: Plan) -> list[set[BlockId]]:
    """What is used in an empty pool, by class."""
    used: list[set[BlockId]] = [set() for _ in plan.classes]
    used[0] = {BlockId(block) for block in range(plan.num_reserved_blocks)}
    return used


def ever_fits(plan: Plan, demand: Sequence[int]) -> bool:
    """Whether blocks can be had from an empty pool."""
    return fits(plan, null_blocks(plan), demand)
