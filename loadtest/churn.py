"""How full a pool stays after thousands of steps at its limit.

Run from the repository's root: ``python -m loadtest.churn``. See docs/simulate.md.
"""

import argparse
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from statistics import fmean

from kvquarry_core.placement import PLACEMENTS
from kvquarry_tools.simulation.churn.runs import (
    BASELINES,
    ChurnFigures,
    ChurnSettings,
    run_churn,
)
from kvquarry_tools.simulation.churn.shapes import QWEN36_35B_A3B
from loadtest.benchmarks.tables import say, table

_POOLS = (*PLACEMENTS, *BASELINES)
_HEAD = (
    *("pool", "seed", "1st quarter", "4th quarter", "first shortage", "running"),
    *("finished", "preempted", "MiB moved each", "cpu s"),
)


@dataclass(frozen=True, slots=True)
class Run:
    """One run and what it took."""

    settings: ChurnSettings
    figures: ChurnFigures
    cpu_s: float


def main(argv: Sequence[str] | None = None) -> None:
    """Run and print."""
    arguments = _parser().parse_args(argv)
    settings = [
        ChurnSettings(QWEN36_35B_A3B, arguments.gib << 30, pool, arguments.steps, seed)
        for pool in arguments.pools
        for seed in arguments.seeds
    ]
    with ProcessPoolExecutor(arguments.jobs) as workers:
        runs = list(workers.map(_run, settings))
    title = f"churn, {arguments.gib} GiB, {arguments.steps:,} steps: bytes needed / pool bytes"
    document = {"benchmark": "churn", "results": [asdict(run) for run in runs]}
    as_json = document if arguments.json else None
    say(table(title, _HEAD, list(_rows(runs))), as_json=as_json)


def _run(settings: ChurnSettings) -> Run:
    start_s = time.process_time()
    figures = run_churn(settings)
    return Run(settings, figures, time.process_time() - start_s)


def _rows(runs: Sequence[Run]) -> Iterator[list[object]]:
    """A row for each run, and the mean of each pool's."""
    for pool in dict.fromkeys(run.settings.pool for run in runs):
        mine = [_row(run) for run in runs if run.settings.pool == pool]
        yield from ([pool, str(run[0]), *run[1:]] for run in mine)
        means = [fmean(float(cell) for cell in column) for column in zip(*mine, strict=True)][1:]
        yield [pool, "mean", *(f"{mean:.4f}" for mean in means[:3]), *means[3:]]


def _row(run: Run) -> list[float | str]:
    figures = run.figures
    return [
        run.settings.seed,
        f"{figures.utilisation[0]:.4f}",
        f"{figures.utilisation[-1]:.4f}",
        f"{figures.first_shortage or 1.0:.4f}",
        figures.num_running,
        figures.num_finished,
        figures.num_preempted,
        figures.moved_bytes_per_finished / (1 << 20),
        run.cpu_s,
    ]


def _names(text: str) -> list[str]:
    names = text.split(",")
    unknown = sorted(set(names) - set(_POOLS))
    if unknown:
        raise argparse.ArgumentTypeError(f"no pool {', '.join(unknown)}; there are {_POOLS}")
    return names


def _numbers(text: str) -> list[int]:
    return [int(number) for number in text.split(",")]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m loadtest.churn", description=__doc__)
    parser.add_argument("--pools", type=_names, default=list(_POOLS), help="several with commas")
    parser.add_argument("--seeds", type=_numbers, default=[1, 2, 3, 4], help="several with commas")
    parser.add_argument("--steps", type=int, default=24_000)
    parser.add_argument("--gib", type=int, default=20, help="GiB of the pool")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--json", action="store_true", help="JSON on stdout, the table on stderr")
    return parser


if __name__ == "__main__":
    main()
