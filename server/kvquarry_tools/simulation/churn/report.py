"""What a churn of several seeds prints."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import fmean

from kvquarry_tools.simulation.churn.runs import ChurnFigures, ChurnSettings

_MIB = 1 << 20
#: What the columns of :func:`churn_lines` are.
HEAD = (
    f"{'pool':<19}{'seed':>5}{'1st':>8}{'2nd':>8}{'3rd':>8}{'4th quarter':>13}"
    f"{'finished':>10}{'preempted':>11}{'refused':>9}{'MiB moved':>11}{'cpu s':>7}"
)


@dataclass(frozen=True, slots=True)
class ChurnRun:
    """One seed, and what it took."""

    settings: ChurnSettings
    figures: ChurnFigures
    cpu_s: float


def churn_text(runs: Sequence[ChurnRun]) -> str:
    """All runs of one pool under their heading."""
    return f"{HEAD}\n{churn_lines(runs)}"


def churn_lines(runs: Sequence[ChurnRun]) -> str:
    """A line for each run of one pool, and their mean; MiB moved are for each finished request."""
    pool = runs[0].settings.label
    cells = [_cells(run) for run in runs]
    lines = [
        _line(pool, str(run.settings.seed), of_run) for run, of_run in zip(runs, cells, strict=True)
    ]
    means = [fmean(column) for column in zip(*cells, strict=True)]
    return "\n".join([*lines, _line(pool, "mean", means)])


def churn_plain(runs: Sequence[ChurnRun]) -> list[dict[str, object]]:
    """Every run for scripts."""
    return [
        {
            "model": run.settings.served.model.name,
            "memory_bytes": run.settings.memory_bytes,
            "pool": run.settings.label,
            "num_steps": run.settings.num_steps,
            "seed": run.settings.seed,
            **asdict(run.figures),
            "cpu_s": run.cpu_s,
        }
        for run in runs
    ]


def _cells(run: ChurnRun) -> list[float]:
    figures = run.figures
    return [
        *figures.utilisation,
        figures.num_finished,
        figures.num_preempted,
        figures.num_refused,
        figures.moved_bytes_per_finished / _MIB,
        run.cpu_s,
    ]


def _line(pool: str, seed: str, cells: Sequence[float]) -> str:
    first, second, third, fourth, finished, preempted, refused, moved_mib, cpu_s = cells
    return (
        f"{pool:<19}{seed:>5}{first:>8.4f}{second:>8.4f}{third:>8.4f}{fourth:>13.4f}"
        f"{finished:>10,.0f}{preempted:>11,.0f}{refused:>9,.0f}"
        f"{moved_mib:>11.2f}{cpu_s:>7.1f}"
    )
