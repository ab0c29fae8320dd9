"""What a churn of several seeds prints."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean

from kvquarry_tools.simulation.churn.runs import ChurnFigures, ChurnSettings

_MIB = 1 << 20
_HEAD = (
    f"{'pool':<19}{'seed':>5}{'1st':>8}{'2nd':>8}{'3rd':>8}{'4th quarter':>13}"
    f"{'finished':>10}{'preempted':>11}{'MiB moved':>11}{'cpu s':>7}"
)


@dataclass(frozen=True, slots=True)
class ChurnRun:
    """One seed, and what it took."""

    settings: ChurnSettings
    figures: ChurnFigures
    cpu_s: float


def churn_text(runs: Sequence[ChurnRun]) -> str:
    """A line for each run and the mean of each pool's; MiB moved are for each finished request."""
    return "\n".join([_HEAD, *_lines(runs)])


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


def _lines(runs: Sequence[ChurnRun]) -> Iterator[str]:
    for pool in dict.fromkeys(run.settings.label for run in runs):
        mine = [run for run in runs if run.settings.label == pool]
        for run in mine:
            yield _line(pool, str(run.settings.seed), _cells(run))
        cells = [_cells(run) for run in mine]
        yield _line(pool, "mean", [fmean(column) for column in zip(*cells, strict=True)])


def _cells(run: ChurnRun) -> list[float]:
    figures = run.figures
    return [
        *figures.utilisation,
        figures.num_finished,
        figures.num_preempted,
        figures.moved_bytes_per_finished / _MIB,
        run.cpu_s,
    ]


def _line(pool: str, seed: str, cells: Sequence[float]) -> str:
    first, second, third, fourth, finished, preempted, moved_mib, cpu_s = cells
    return (
        f"{pool:<19}{seed:>5}{first:>8.4f}{second:>8.4f}{third:>8.4f}{fourth:>13.4f}"
        f"{finished:>10,.0f}{preempted:>11,.0f}{moved_mib:>11.2f}{cpu_s:>7.1f}"
    )
