"""What the demo found out, for people and as JSON."""

from dataclasses import asdict, dataclass
from typing import Any, Self

from rich import box
from rich.console import Console
from rich.table import Table

from kvquarry_vllm.demo.job import EngineResult
from kvquarry_vllm.demo.workload import (
    NUM_SHARING,
    RESENT_LENGTHS,
    SHARED_PREFIX_TOKENS,
    SHARED_SUFFIX_TOKENS,
    hits_by_length,
    shared_prefix_hits,
)


@dataclass(frozen=True, slots=True)
class Hits:
    """The prefix hits of one engine.

    Attributes:
        asked_block_tokens: The ``--block-size`` that was given.
        block_tokens: The block size that the engine then worked with.
        resent: For each prompt length the tokens found on the 1st, 2nd and 3rd sending.
        shared: The tokens found for each prompt with the shared prefix, in the order sent.
    """

    asked_block_tokens: int
    block_tokens: int
    resent: dict[int, tuple[int, ...]]
    shared: tuple[int, ...]

    @classmethod
    def of(cls, result: EngineResult, *, asked_block_tokens: int) -> Self:
        """Those that an engine measured when it served ``hit_waves``."""
        return cls(
            asked_block_tokens,
            result.block_size_tokens,
            hits_by_length(result),
            shared_prefix_hits(result),
        )


@dataclass(frozen=True, slots=True)
class Equality:
    """Whether two engines gave the same outputs.

    Attributes:
        block_tokens: The ``--block-size`` of both.
        num_requests: Requests that both served.
        num_equal: Those with equal tokens and logprobs, bit for bit.
        num_class_changes: How often a slab of the kvquarry pool went to another size class.
    """

    block_tokens: int
    num_requests: int
    num_equal: int
    num_class_changes: int

    @property
    def holds(self) -> bool:
        """Whether there was something to compare and all of it was equal."""
        return 0 < self.num_requests == self.num_equal


@dataclass(frozen=True, slots=True)
class Report:
    """Everything the demo measured."""

    processor: str
    model: str
    stock: Hits
    kvquarry: Hits
    equality: Equality

    def to_dict(self) -> dict[str, Any]:
        """As JSON can carry it."""
        return asdict(self) | {"outputs_equal": self.equality.holds}


def num_equal(one: EngineResult, other: EngineResult) -> int:
    """How many requests have equal tokens and logprobs, bit for bit."""
    pairs = zip(one.requests, other.requests, strict=True)
    return sum(first.bits == second.bits for first, second in pairs)


def show(report: Report, console: Console) -> None:
    """Print the table of hits and the verdict on the outputs."""
    console.print()
    console.print(_hit_table(report.stock, report.kvquarry))
    for line in (*_shared_note(report), *_verdict(report.equality)):
        console.print(line, highlight=False, soft_wrap=True)


def _hit_table(stock: Hits, kvquarry: Hits) -> Table:
    table = Table(
        title="Tokens found in the prefix cache", title_justify="left", box=box.SIMPLE_HEAD
    )
    table.add_column("prompt of\n(sent three times)", no_wrap=True)
    for name, hits in (("stock vLLM", stock), ("kvquarry", kvquarry)):
        asked = f"--block-size {hits.asked_block_tokens}"
        table.add_column(f"{name}\n{asked}\n{_outcome(hits)}", no_wrap=True)
    for length in RESENT_LENGTHS:
        row = (_slashed(hits.resent[length]) for hits in (stock, kvquarry))
        table.add_row(f"{length} tokens", *row)
    title = f"{NUM_SHARING} that share {SHARED_PREFIX_TOKENS}"
    table.add_row(title, _slashed(stock.shared), _slashed(kvquarry.shared))
    return table


def _outcome(hits: Hits) -> str:
    if hits.block_tokens == hits.asked_block_tokens:
        return f"block size {hits.block_tokens}"
    return f"raised to {hits.block_tokens}"


def _shared_note(report: Report) -> tuple[str, ...]:
    """Why stock may be ahead on the second prompt: a checkpoint that fell inside by chance."""
    second = report.stock.shared[1]
    if second <= report.kvquarry.shared[1]:
        return ()
    shared, own = SHARED_PREFIX_TOKENS, SHARED_SUFFIX_TOKENS
    return (
        f"  The last row's prompts share {shared} tokens and go on with {own} of their own. Each",
        f"  leaves a state at its last block boundary. Stock's, at {second}, happens to lie in the",
        "  shared part, so the second prompt finds it. kvquarry's lies behind; but from the second",
        "  prompt on it also keeps a state near the place where the prompts part.",
    )


def _verdict(equality: Equality) -> tuple[str, ...]:
    compared = f"{equality.num_requests} requests at --block-size {equality.block_tokens}"
    if not equality.holds:
        differing = equality.num_requests - equality.num_equal
        return ("", f"[bold red]Outputs DIFFER[/] from stock in {differing} of {compared}.")
    lines = (
        "",
        f"[bold green]All outputs equal[/] to stock, tokens and logprobs bit for bit: {compared},",
        "where the kernels round alike whatever was found in the cache.",
    )
    if not equality.num_class_changes:
        return lines
    changes = f"{equality.num_class_changes} times from attention blocks to states or back"
    return (*lines, f"Meanwhile pieces of kvquarry's memory changed {changes}.")


def _slashed(hits: tuple[int, ...]) -> str:
    return " / ".join(map(str, hits))
