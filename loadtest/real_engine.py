"""What the benchmarks of real engines share: the arms they compare and how runs are alternated.

Each run of each arm is an engine process of its own, so that no arm inherits another's caches. The
order of the arms is turned round from run to run. Stock runs twice in every run: the ratio of its
two is the spread that any other ratio must be read against.
"""

import argparse
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeVar

from kvquarry_vllm.demo.jobs import kvquarry_env
from kvquarry_vllm.demo.service import ServiceProcess

ROOT: Final = Path(__file__).resolve().parents[1]
ENGINE_TIMEOUT_S: Final = 600.0
STOCK: Final = "stock"
STOCK_AGAIN: Final = "stock again"

Measured = TypeVar("Measured")


@dataclass(frozen=True, slots=True)
class Arm:
    """One way to run the engine.

    Attributes:
        name: The column's title.
        target: None for stock vLLM, or what KVQUARRY_TARGET says; ``unix:`` stands for the
            benchmark's own service.
        block_tokens: The ``--block-size`` that is asked for.
        options: Further arguments of ``vllm.LLM``.
    """

    name: str
    target: str | None
    block_tokens: int
    options: Mapping[str, object] = field(default_factory=dict)

    def env(self, service: str) -> dict[str, str]:
        """What switches kvquarry on, with the target of the benchmark's service."""
        path = {"PYTHONPATH": _python_path()}
        if self.target is None:
            return path
        target = service if self.target == "unix:" else self.target
        quarry = kvquarry_env(target, engine=f"benchmark-{self.name.replace(' ', '-')}")
        return path | quarry | {"KVQUARRY_AHEAD_TOKENS": "256"}


@dataclass(frozen=True, slots=True)
class Ratio:
    """An arm's figure over stock's of the same run: the median over the runs, and the extremes."""

    median: float
    lowest: float
    highest: float

    def __str__(self) -> str:
        return f"{self.median:.2f} ({self.lowest:.2f}-{self.highest:.2f})"


def ratio_to_stock(arm: Sequence[float], stock: Sequence[float]) -> Ratio:
    """Run by run: what slowed one run down slowed both."""
    ratios = [one / other for one, other in zip(arm, stock, strict=True)]
    return Ratio(statistics.median(ratios), min(ratios), max(ratios))


def alternated(
    arms: Sequence[Arm], num_runs: int, measure: Callable[[Arm], Measured]
) -> dict[str, list[Measured]]:
    """Measure each arm once in every run; returns what each measured, in the order of the runs."""
    measured: dict[str, list[Measured]] = {arm.name: [] for arm in arms}
    for run in range(num_runs):
        for arm in arms if run % 2 == 0 else reversed(arms):
            progress = f"run {run + 1} of {num_runs}: {arm.name}"
            print(progress, file=sys.stderr, flush=True)  # standard output is the result alone
            measured[arm.name].append(measure(arm))
    return measured


@contextmanager
def workplace() -> Iterator[tuple[Path, str]]:
    """A folder for checkpoints and logs, and the target of a service that runs meanwhile.

    The folder's name is short: a socket's path has room for 107 bytes.
    """
    with tempfile.TemporaryDirectory(prefix="kvq-") as name:
        folder = Path(name)
        options = ("--metrics-listen", "off")
        log = folder / "service.log"
        with ServiceProcess(folder / "kvquarry.sock", log=log, options=options) as service:
            yield folder, service.target


def common_options(arm: Arm, **options: object) -> dict[str, object]:
    """The arguments of ``vllm.LLM`` that all benchmarks give."""
    common = {
        "skip_tokenizer_init": True,
        "enforce_eager": True,
        "enable_prefix_caching": True,
        "mamba_cache_mode": "align",
        "seed": 0,
        "block_size": arm.block_tokens,
    }
    return {**common, **options, **arm.options}


def parser_of(description: str | None, num_runs: int) -> argparse.ArgumentParser:
    """The options that all benchmarks have."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=num_runs, help="alternated runs (%(default)s)")
    parser.add_argument("--quick", action="store_true", help="one small run, to see that it works")
    parser.add_argument("--json", action="store_true", help="print JSON, with every run's figures")
    return parser


def markdown_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table as Markdown has it, the columns aligned."""
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    lines = [header, ["-" * width for width in widths], *rows]
    return "\n".join("| " + " | ".join(map(str.ljust, line, widths)) + " |" for line in lines)


def _python_path() -> str:
    """The engine's process must find the modules that it is told to preload."""
    return ":".join(filter(None, (str(ROOT), *sys.path)))
