"""One request counted by hand: the arithmetic behind the report, with the numbers in it."""

from collections import Counter
from collections.abc import Iterator

from kvquarry_core.ids import ClassId
from kvquarry_core.plan import GroupKind, GroupSpec
from kvquarry_tools.planning import demand
from kvquarry_tools.planning.pools import most_held
from kvquarry_tools.planning.report import KIND_NAMES, Report
from kvquarry_tools.planning.sizes import count, memory, tokens

#: The request that is counted.
WORKED_TOKENS = 2048


def worked_lines(report: Report) -> Iterator[str]:
    """How many requests of :data:`WORKED_TOKENS` tokens run at once, step by step."""
    yield f"A request of {tokens(WORKED_TOKENS)}, counted by hand:"
    yield "  kvquarry"
    yield from (f"    {line}" for line in _mixed_lines(report))
    yield "  stock vLLM"
    yield from (f"    {line}" for line in _uniform_lines(report))


def _mixed_lines(report: Report) -> Iterator[str]:
    plan = report.mixed.plan
    request_bytes = 0
    blocks = demand.resident(plan.groups, WORKED_TOKENS)
    alike = Counter(zip(plan.groups, plan.class_of_group, blocks, strict=True))
    for (group, size_class, num_blocks), num_groups in alike.items():
        block_bytes = plan.block_bytes(ClassId(size_class))
        taken_bytes = num_groups * num_blocks * block_bytes
        request_bytes += taken_bytes
        yield (
            f"{_named(group, num_groups)}: {_counted(group, num_blocks)}"
            f" of {memory(block_bytes)} = {memory(taken_bytes)}"
        )
    by_bytes = report.memory_bytes // request_bytes
    held = most_held(report.mixed, WORKED_TOKENS)
    whole = "slabs" if len(plan.classes) > 1 else "blocks"
    yield (
        f"{memory(report.memory_bytes)} / {memory(request_bytes)} = {count(by_bytes)} by bytes, "
        f"{count(held)} in whole {whole}"
    )
    yield from _reserve_lines(report)


def _reserve_lines(report: Report) -> Iterator[str]:
    """What an admission leaves free, so that few requests are preempted; a uniform pool nothing."""
    admitted = report.mixed_capacity.requests[WORKED_TOKENS]
    num_running = max(admitted - 1, 0)
    plan = report.mixed.plan
    kept_free = report.mixed.kept_free(num_running, WORKED_TOKENS)
    for index, num_blocks in enumerate(kept_free):
        if num_blocks:
            block_bytes = plan.block_bytes(ClassId(index))
            yield (
                f"kept free for {count(num_running)} that run: {_blocks(num_blocks)}"
                f" of {memory(block_bytes)} = {memory(num_blocks * block_bytes)}"
            )
    if any(kept_free):
        yield f"with that, {count(admitted)} are admitted"


def _uniform_lines(report: Report) -> Iterator[str]:
    uniform = report.uniform
    blocks = demand.resident(uniform.groups, WORKED_TOKENS)
    for (group, num_blocks), num_groups in Counter(
        zip(uniform.groups, blocks, strict=True)
    ).items():
        yield f"{_named(group, num_groups)}: {_counted(group, num_blocks)}"
    held = report.uniform_capacity.requests[WORKED_TOKENS]
    yield (
        f"{count(sum(blocks))} blocks of {memory(uniform.layout.block_bytes)} each; "
        f"({count(uniform.num_blocks)} - 1) / {count(sum(blocks))} = {count(held)}"
    )


def _named(group: GroupSpec, num_groups: int) -> str:
    name = KIND_NAMES[group.kind]
    return name if num_groups == 1 else f"{name}, {num_groups} groups"


def _counted(group: GroupSpec, num_blocks: int) -> str:
    if group.kind is GroupKind.RECURRENT_STATE:
        return "1 state" if num_blocks == 1 else f"{num_blocks} states"
    if group.kind is GroupKind.FULL_ATTENTION:
        return f"{count(WORKED_TOKENS)} / {count(group.block_tokens)} = {_blocks(num_blocks)}"
    return f"{_blocks(num_blocks)} of {tokens(group.block_tokens)}"


def _blocks(number: int) -> str:
    return "1 block" if number == 1 else f"{count(number)} blocks"
