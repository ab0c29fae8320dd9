"""The report as people read it, within 80 columns."""

from collections.abc import Iterator, Sequence

from kvquarry_core.plan import GroupKind
from kvquarry_core.slab_choice import ENOUGH_SLABS, MOST_PADDING
from kvquarry_tools.models.layers import LayerCache
from kvquarry_tools.models.stock import KERNEL_TOKENS
from kvquarry_tools.planning.notes import note_lines
from kvquarry_tools.planning.report import KIND_NAMES, REQUEST_TOKENS, ClassReport, Report
from kvquarry_tools.planning.sequences import SequenceLimit
from kvquarry_tools.planning.sizes import count, mebibytes, memory, tokens
from kvquarry_tools.planning.worked import worked_lines

_LABEL_COLUMNS = 48
_NUMBER_COLUMNS = 16
#: How far those reach back that do not read everything.
_REACHES = {
    GroupKind.SLIDING_WINDOW: "of the last",
    GroupKind.CHUNKED_LOCAL: "of the last chunk of",
}


def plan_table(report: Report) -> str:
    """Everything ``kvquarry plan`` shows."""
    parts = [
        _model_lines(report),
        _mixed_lines(report),
        _uniform_lines(report),
        _capacity_lines(report),
        worked_lines(report),
    ]
    if report.sequences is not None:
        parts.append(_sequence_lines(report.sequences))
    parts.append(_note_lines(report))
    return "\n\n".join(text for part in parts if (text := "\n".join(part)))


def _model_lines(report: Report) -> Iterator[str]:
    model, serving = report.served.model, report.served.serving
    yield f"{model.name} ({model.architecture})"
    workers = "" if serving.tp == 1 else f" on each of {serving.tp} workers"
    memory_of_one = memory(report.memory_bytes)
    yield f"{memory_of_one} of KV cache{workers}, blocks of {tokens(serving.block_tokens)}"
    layers = report.served.layers
    if full := [layer for layer in layers if layer.bytes_per_token and not layer.window_tokens]:
        token_bytes = sum(layer.bytes_per_token for layer in full)
        yield f"  attention   {_layers(full)}, {count(token_bytes)} B a token"
    for kind, reach in _REACHES.items():
        if limited := [layer for layer in layers if layer.kind is kind]:
            token_bytes = sum(layer.bytes_per_token for layer in limited)
            amount = f"{count(token_bytes)} B a token {reach} {count(limited[0].window_tokens)}"
            yield f"  {KIND_NAMES[kind]:<10}  {_layers(limited)}, {amount}"
    if states := [layer for layer in layers if layer.state_bytes]:
        checkpoint = memory(report.served.checkpoint_bytes)
        yield f"  checkpoint  {_layers(states)}, {checkpoint}, whatever the length"


def _layers(layers: Sequence[LayerCache]) -> str:
    return "1 layer" if len(layers) == 1 else f"{len(layers)} layers"


def _mixed_lines(report: Report) -> Iterator[str]:
    plan = report.mixed.plan
    slab_bytes = plan.slab_bytes * plan.num_regions
    left_over = report.left_over_bytes / report.memory_bytes
    slabs = "1 slab" if plan.num_slabs == 1 else f"{count(plan.num_slabs)} slabs"
    yield f"kvquarry: {slabs} of {memory(slab_bytes)}, {left_over:.1%} left over"
    rows: list[tuple[str, ...]] = [
        ("class", "holds", "groups", "block", "padding", "per slab", "blocks")
    ]
    rows.extend(_class_row(index, one) for index, one in enumerate(report.classes))
    yield from _aligned(rows)


def _class_row(index: int, one: ClassReport) -> tuple[str, ...]:
    return (
        str(index),
        one.holds,
        str(one.num_groups),
        memory(one.block_bytes),
        f"{one.padding:.2%}",
        count(one.blocks_per_slab),
        count(one.num_blocks),
    )


def _uniform_lines(report: Report) -> Iterator[str]:
    layout = report.uniform.layout
    yield (
        f"stock vLLM: {count(report.uniform.num_blocks)} blocks of {memory(layout.block_bytes)} "
        f"for {len(layout.groups)} {'group' if len(layout.groups) == 1 else 'groups'} alike"
    )
    asked = report.served.serving.block_tokens
    if layout.block_tokens != asked:
        yield f"  blocks of {tokens(asked)} become {count(layout.block_tokens)}"
    if layout.state_bytes:
        yield f"  {layout.state_padding:.2%} of a block of states is padding"


def _capacity_lines(report: Report) -> Iterator[str]:
    ours, stock = report.mixed_capacity, report.uniform_capacity
    yield _line("", "kvquarry", "stock vLLM")
    yield _line(
        "hits in steps of, tokens", count(ours.hit_step_tokens), count(stock.hit_step_tokens)
    )
    for num_tokens in REQUEST_TOKENS:
        yield _line(
            f"requests of {tokens(num_tokens)} at once",
            count(ours.requests[num_tokens]),
            count(stock.requests[num_tokens]),
        )
    yield _line(
        "longest request, tokens",
        _or_endless(ours.longest_request_tokens),
        _or_endless(stock.longest_request_tokens),
    )
    if not report.served.checkpoint_bytes:
        ((_, most),) = ours.cached_tokens.items()
        ((_, stock_most),) = stock.cached_tokens.items()
        yield _line("tokens of cached prefixes", count(most), count(stock_most))
        return
    yield "tokens of cached prefixes"
    for apart in sorted(ours.cached_tokens.keys() | stock.cached_tokens.keys()):
        yield _line(
            f"  a checkpoint every {tokens(apart)}",
            _or_dash(ours.cached_tokens.get(apart)),
            _or_dash(stock.cached_tokens.get(apart)),
        )


def _sequence_lines(limit: SequenceLimit) -> Iterator[str]:
    wished, largest = count(limit.wished), count(limit.largest)
    if limit.fits:
        yield f"--max-num-seqs {wished} fits: {largest} requests of one token run at once."
        return
    yield f"--max-num-seqs {wished} is too many: {largest} requests of one token run at once."
    yield "Change one of these:"
    yield f"  --max-num-seqs {limit.largest}"
    if limit.memory_bytes is not None:
        yield f"  --memory {mebibytes(limit.memory_bytes)}"
    if (most := limit.largest_with_smaller_states) is not None:
        enough = "" if most >= limit.wished else ", not enough by itself"
        yield f"  --state-dtype bfloat16, with which {count(most)} run at once{enough}"


def _note_lines(report: Report) -> Iterator[str]:
    notes = list(report.served.model.notes)
    if report.served.serving.num_speculative_tokens:
        notes.append("the layers of a draft model are not counted")
    notes.extend(note for note in (_padding_note(report), _block_note(report)) if note)
    return note_lines(notes)


def _padding_note(report: Report) -> str | None:
    """Why a class is padded by more than the bound; ``choose_slab`` knows no other reason."""
    most = max(report.classes, key=lambda one: one.padding)
    if most.padding <= MOST_PADDING:
        return None
    return (
        f"blocks of {most.holds} are padded by {most.padding:.2%}, more than {MOST_PADDING:.1%}: "
        f"of the slabs that keep to it none leaves {ENOUGH_SLABS} in this memory, and fewer cost "
        "more than padding does"
    )


def _block_note(report: Report) -> str | None:
    """What engines say to blocks that their kernels cannot be given, whole or in parts."""
    block_tokens = report.served.serving.block_tokens
    if block_tokens % KERNEL_TOKENS == 0 or not report.served.bytes_per_token:
        return None
    return (
        f"attention kernels on GPUs take whole multiples of {KERNEL_TOKENS} tokens, so that an "
        f"engine refuses blocks of {tokens(block_tokens)}"
    )


def _line(label: str, ours: str, stock: str) -> str:
    return f"{label:<{_LABEL_COLUMNS}}{ours:>{_NUMBER_COLUMNS}}{stock:>{_NUMBER_COLUMNS}}".rstrip()


def _or_endless(number: int | None) -> str:
    return "any length" if number is None else count(number)


def _or_dash(number: int | None) -> str:
    return "-" if number is None else count(number)


def _aligned(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Numbers to the right, what a class holds to the left."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        cells = [
            cell.ljust(width) if column == 1 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        yield "  " + "  ".join(cells).rstrip()
