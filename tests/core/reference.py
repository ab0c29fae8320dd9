"""The same questions answered naively: brute force over sets, sharing no code with the core."""

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
    kinds = [KindId(kind) for kind in range(len(plan.kinds))]
    for num_tokens in range(max_tokens, 0, -1):
        if all(accepts(plan, kind, findable, hashes, num_tokens) for kind in kinds):
            return num_tokens
    return 0


def accepts(
    plan: Plan,
    kind: KindId,
    findable: Container[tuple[KindId, BlockHash]],
    hashes: Sequence[BlockHash],
    num_tokens: int,
) -> bool:
    """Whether one kind has what it needs to go on after exactly ``num_tokens`` tokens."""
    spec = plan.spec_of_kind(kind)
    if num_tokens % spec.block_tokens or num_tokens > len(hashes) * plan.hash_tokens:
        return False
    ends = range(spec.block_tokens, num_tokens + 1, spec.block_tokens)
    if spec.kind is GroupKind.RECURRENT_STATE:
        ends = ends[-1:]
    return all((kind, hashes[end // plan.hash_tokens - 1]) in findable for end in ends)


def new_blocks(plan: Plan, hit_tokens: int, num_tokens: int) -> list[int]:
    """New blocks by group, to go from a hit to ``num_tokens``."""
    return [_new_blocks(spec, hit_tokens, num_tokens) for spec in plan.groups]


def _new_blocks(spec: GroupSpec, hit_tokens: int, num_tokens: int) -> int:
    if num_tokens <= hit_tokens:
        return 0
    if spec.kind is GroupKind.RECURRENT_STATE:
        return 1 + spec.num_speculative_blocks
    blocks_needed = {token // spec.block_tokens for token in range(num_tokens)}
    return len(blocks_needed - set(range(hit_tokens // spec.block_tokens)))


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
