"""Everything ``kvquarry plan`` says, as numbers."""

from collections.abc import Iterator
from dataclasses import dataclass

from kvquarry_core.errors import PlanError, Reason
from kvquarry_core.ids import ClassId
from kvquarry_core.plan import GroupKind, Plan, make_plan
from kvquarry_tools.errors import InvalidConfiguration, InvalidOption
from kvquarry_tools.models import ServedModel
from kvquarry_tools.models.serving import DEFAULT_BLOCK_TOKENS
from kvquarry_tools.planning.least import least_memory
from kvquarry_tools.planning.pools import (
    MixedPool,
    Pool,
    UniformPool,
    longest_request,
    most_cached_tokens,
    most_requests,
    runs_any,
)
from kvquarry_tools.planning.sequences import SequenceLimit, sequence_limit
from kvquarry_tools.planning.sizes import mebibytes, memory

#: Lengths of requests that the report counts.
REQUEST_TOKENS = (100, 2048, 32768)
#: With sparse checkpoints a prompt of this length keeps one, at its last boundary.
SPARSE_TOKENS = REQUEST_TOKENS[-1]

#: What blocks hold, by the kind of their group.
KIND_NAMES = {
    GroupKind.FULL_ATTENTION: "attention",
    GroupKind.SLIDING_WINDOW: "windows",
    GroupKind.CHUNKED_LOCAL: "chunks",
    GroupKind.RECURRENT_STATE: "states",
}


@dataclass(frozen=True, slots=True)
class Capacity:
    """What a pool holds.

    Attributes:
        requests: For each of :data:`REQUEST_TOKENS`, how many such requests run at once.
        longest_request_tokens: The longest request that runs alone; None: there is no longest.
        cached_tokens: Tokens of cached prefixes, by the tokens from one checkpoint to the next;
            a model without states has one entry, for its block size.
        max_num_seqs: How many requests of one token run at once.
        hit_step_tokens: Hits are whole multiples of this.
    """

    requests: dict[int, int]
    longest_request_tokens: int | None
    cached_tokens: dict[int, int]
    max_num_seqs: int
    hit_step_tokens: int


@dataclass(frozen=True, slots=True)
class ClassReport:
    """One size class of kvquarry's pool.

    Attributes:
        holds: What its blocks hold, by name.
        num_groups: Groups that take blocks from it.
        block_tokens: Tokens per block; for states, between checkpoints.
        block_bytes: Bytes of a block in all layers, padding included.
        padding: Share of a block that holds nothing.
        blocks_per_slab: Blocks of this class in one slab.
        num_blocks: The most that can ever be handed out.
    """

    holds: str
    num_groups: int
    block_tokens: int
    block_bytes: int
    padding: float
    blocks_per_slab: int
    num_blocks: int


@dataclass(frozen=True, slots=True)
class Report:
    """What a model's cache looks like in so much memory, cut by kvquarry and by stock vLLM.

    Attributes:
        served: The model and how it is served.
        memory_bytes: The memory of one worker's KV cache.
        mixed: kvquarry's pool.
        classes: Its size classes.
        left_over_bytes: Memory that makes no whole slab.
        uniform: Stock vLLM's pool.
        mixed_capacity: What kvquarry's pool holds.
        uniform_capacity: What stock vLLM's pool holds.
        sequences: What a wished ``--max-num-seqs`` comes to; None: nothing was wished.
    """

    served: ServedModel
    memory_bytes: int
    mixed: MixedPool
    classes: tuple[ClassReport, ...]
    left_over_bytes: int
    uniform: UniformPool
    mixed_capacity: Capacity
    uniform_capacity: Capacity
    sequences: SequenceLimit | None


def make_report(served: ServedModel, memory_bytes: int, max_num_seqs: int | None = None) -> Report:
    """Plan both pools and count what they hold.

    Raises:
        InvalidOption: The memory holds no pool for this model; the message says how much does.
    """
    plan = plan_for(served, memory_bytes)
    layout = served.stock
    mixed = MixedPool(plan)
    uniform = UniformPool(layout, memory_bytes // layout.block_bytes)
    return Report(
        served=served,
        memory_bytes=memory_bytes,
        mixed=mixed,
        classes=tuple(_class_reports(plan)),
        left_over_bytes=memory_bytes - plan.pool_bytes,
        uniform=uniform,
        mixed_capacity=_capacity(mixed, served),
        uniform_capacity=_capacity(uniform, served),
        sequences=None
        if max_num_seqs is None
        else sequence_limit(served, plan, memory_bytes, max_num_seqs),
    )


def plan_for(served: ServedModel, memory_bytes: int) -> Plan:
    """The core's plan, in which at least one request of one token can run.

    Raises:
        InvalidOption: The memory holds no such pool for this model.
        InvalidConfiguration: No memory does: a layer keeps nothing.
    """
    try:
        plan = make_plan(served.groups, memory_bytes)
    except PlanError as error:
        if error.reason is Reason.POOL_TOO_SMALL:
            raise _too_little(served, memory_bytes) from None
        raise InvalidConfiguration(
            f"{served.model.name} has layers that cannot be: {error}"
        ) from None
    if not runs_any(MixedPool(plan)):
        raise _too_little(served, memory_bytes)
    return plan


def _too_little(served: ServedModel, memory_bytes: int) -> InvalidOption:
    least = least_memory(served.groups, lambda plan: runs_any(MixedPool(plan)))
    changes = [] if least is None else [f"at least --memory {mebibytes(least)}"]
    if served.serving.num_speculative_tokens:
        changes.append("fewer --spec-tokens")
    if served.serving.block_tokens > DEFAULT_BLOCK_TOKENS:
        changes.append("a smaller --block-size")
    change = f"give {' or '.join(changes)}" if changes else "no worker has enough"
    return InvalidOption(
        f"--memory {memory(memory_bytes)} is too little for {served.model.name}, no request of one "
        f"token fits; {change}"
    )


def _class_reports(plan: Plan) -> Iterator[ClassReport]:
    for index, size_class in enumerate(plan.classes):
        groups = [
            group
            for group, owner in zip(plan.groups, plan.class_of_group, strict=True)
            if owner == index
        ]
        yield ClassReport(
            holds=", ".join(dict.fromkeys(KIND_NAMES[group.kind] for group in groups)),
            num_groups=len(groups),
            block_tokens=groups[0].block_tokens,
            block_bytes=plan.block_bytes(ClassId(index)),
            padding=1 - size_class.page_bytes / size_class.stride_bytes,
            blocks_per_slab=size_class.blocks_per_slab,
            num_blocks=size_class.num_usable_blocks,
        )


def _capacity(pool: Pool, served: ServedModel) -> Capacity:
    block_tokens = max(group.block_tokens for group in pool.groups)
    return Capacity(
        requests={num_tokens: most_requests(pool, num_tokens) for num_tokens in REQUEST_TOKENS},
        longest_request_tokens=longest_request(pool),
        cached_tokens={
            apart: most_cached_tokens(pool, apart)
            for apart in checkpoint_distances(served, block_tokens)
        },
        max_num_seqs=most_requests(pool, 1),
        hit_step_tokens=block_tokens,
    )


def checkpoint_distances(served: ServedModel, block_tokens: int) -> list[int]:
    """From a checkpoint at every block, over one at every block of stock vLLM's, to sparse ones."""
    if not served.checkpoint_bytes:
        return [block_tokens]
    wanted = (block_tokens, served.stock.block_tokens, SPARSE_TOKENS)
    return sorted({max(apart, block_tokens) for apart in wanted})
