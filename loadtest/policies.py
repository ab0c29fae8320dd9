"""What policies find in the prefix cache, beside stock vLLM's uniform pool and a static split.

Run from the repository's root: ``python -m loadtest.policies``. See docs/simulate.md.
"""

import argparse
import json
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from kvquarry_core.policies import PolicyNames
from kvquarry_tools.models import Serving, find_model
from kvquarry_tools.simulation.results import Figures
from kvquarry_tools.simulation.runs import simulate
from kvquarry_tools.simulation.settings import Baseline, SimulationSettings
from kvquarry_tools.simulation.traces import read_trace

_TRACE = Path("tests/tools/data/mooncake_conversation.jsonl.xz")
_MODELS = ("Qwen3.6-35B-A3B", "Nemotron-3-Nano-30B-A3B", "Kimi-Linear-48B-A3B")
_GIB = (40, 80, 160)
_HEAD = (
    f"{'model':<26}{'GiB':>5}  {'pool':<26}{'hit rate':>9}{'preempted':>11}"
    f"{'running at 1st shortage':>25}"
)


@dataclass(frozen=True, slots=True)
class Contender:
    """Something to run.

    Attributes:
        name: What it is called in the table.
        policies: What kvquarry's pool goes by.
        retention: Which checkpoints stay.
        baseline: What runs instead of it.
    """

    name: str
    policies: PolicyNames = PolicyNames()  # noqa: RUF009 - frozen
    retention: str = "boundaries"
    baseline: Baseline | None = None


_CONTENDERS = (
    Contender("lru"),
    Contender("saved-work", PolicyNames(eviction="saved-work")),
    Contender("uniform (stock vLLM)", baseline=Baseline.UNIFORM),
    Contender("static 70/30", baseline=Baseline.STATIC),
    Contender("Belady", baseline=Baseline.BELADY),
    Contender("session", PolicyNames(eviction="session")),
    Contender("slab-aware", PolicyNames(eviction="slab-aware")),
)


@dataclass(frozen=True, slots=True)
class Run:
    """One contender on one model and one memory."""

    model: str
    gib: int
    block_tokens: int
    trace: Path
    num_requests: int | None
    contender: Contender

    def figures(self) -> Figures:
        """Replay the trace."""
        contender = self.contender
        settings = SimulationSettings(
            served=find_model(self.model).served(Serving(self.block_tokens)),
            memory_bytes=self.gib << 30,
            policies=contender.policies,
            retention=contender.retention,
            baseline=contender.baseline,
        )
        return simulate(settings, read_trace(self.trace)[: self.num_requests])


def main(argv: Sequence[str] | None = None) -> None:
    """Run and print."""
    arguments = _parser().parse_args(argv)
    runs = list(_runs(arguments))
    documents = []
    if not arguments.json:
        print(_HEAD)
    with ProcessPoolExecutor(arguments.jobs) as workers:
        for run, figures in zip(runs, workers.map(Run.figures, runs), strict=True):
            documents.append(_document(run, figures))
            if not arguments.json:
                print(_line(run, figures), flush=True)
    if arguments.json:
        print(json.dumps({"benchmark": "policies", "results": documents}, indent=1))


def _runs(arguments: argparse.Namespace) -> Iterator[Run]:
    for model in arguments.models:
        for gib in arguments.gib:
            for contender in _CONTENDERS:
                yield Run(
                    model,
                    gib,
                    arguments.block_size,
                    arguments.trace,
                    arguments.first,
                    contender,
                )


def _document(run: Run, figures: Figures) -> dict[str, object]:
    return {
        "model": run.model,
        "gib": run.gib,
        "block_tokens": run.block_tokens,
        "pool": run.contender.name,
        "token_hit_rate": figures.token_hit_rate,
        "num_preempted": figures.num_preempted,
        "recomputed_tokens": figures.recomputed_tokens,
        "evictions": figures.evictions,
    }


def _line(run: Run, figures: Figures) -> str:
    shortage = figures.first_shortage
    at_shortage = "-" if shortage is None else f"{shortage.content:.3f}"
    return (
        f"{run.model:<26}{run.gib:>5}  {run.contender.name:<26}{figures.token_hit_rate:>9.4f}"
        f"{figures.num_preempted:>11,}{at_shortage:>25}"
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m loadtest.policies", description=__doc__)
    parser.add_argument("--trace", type=Path, default=_TRACE, help="in the Mooncake format")
    parser.add_argument("--models", nargs="+", default=_MODELS, help="known names or config.json")
    parser.add_argument("--gib", nargs="+", type=int, default=_GIB, help="GiB of the pool")
    parser.add_argument("--block-size", type=int, default=64, help="tokens per block")
    parser.add_argument("--first", type=int, help="only the first requests of the trace")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--json", action="store_true", help="for scripts")
    return parser


if __name__ == "__main__":
    main()
