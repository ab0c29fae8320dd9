"""Runs of several sides become figures: ratios are taken within one round, never across."""

from collections.abc import Sequence
from dataclasses import dataclass

from loadtest.benchmarks.hot_scenarios import Run
from loadtest.benchmarks.samples import p50, p99, spread


@dataclass(frozen=True, slots=True)
class SideFigures:
    """One side in one phase.

    Attributes:
        p50_us: Median of the rounds' p50.
        p99_us: Of the samples of all rounds together.
        ratio: Its p50 to the mean of stock's two in the same round: median, least, greatest. For
            stock it is the second run to the first: what a ratio of 1 looks like here.
        exchanges: Per operation of the whole scenario.
        client_cpu_us: The same.
        service_cpu_us: The same.
    """

    p50_us: float
    p99_us: float
    ratio: list[float]
    exchanges: float
    client_cpu_us: float
    service_cpu_us: float


@dataclass(frozen=True, slots=True)
class Comparison:
    """All sides in one phase of one scenario."""

    shape: str
    scenario: str
    phase: str
    sides: dict[str, SideFigures]


def compare(
    shape: str, scenario: str, names: Sequence[str], rounds: Sequence[Sequence[Run]]
) -> list[Comparison]:
    """Figures of every phase that any side went through.

    Args:
        shape: What was modelled.
        scenario: What was run.
        names: The sides, stock first and last.
        rounds: For each round, a run of each side.
    """
    phases = dict.fromkeys(phase for row in rounds for run in row for phase in run.laps)
    return [
        Comparison(
            shape,
            scenario,
            phase,
            {
                name: _figures(phase, column, rounds)
                for column, name in enumerate(names[:-1])
                if any(phase in row[column].laps for row in rounds)
            },
        )
        for phase in phases
    ]


def as_rows(comparison: Comparison) -> list[list[object]]:
    """For a table."""
    no_ratio = (None, None, None)
    return [
        [
            *(comparison.shape, comparison.scenario, comparison.phase, name),
            *(figures.p50_us, figures.p99_us, *(figures.ratio or no_ratio)),
            *(figures.exchanges, figures.client_cpu_us, figures.service_cpu_us),
        ]
        for name, figures in comparison.sides.items()
    ]


def _figures(phase: str, column: int, rounds: Sequence[Sequence[Run]]) -> SideFigures:
    runs = [row[column] for row in rounds if phase in row[column].laps]
    samples = [lap for run in runs for lap in run.laps[phase]]
    return SideFigures(
        round(spread([p50(run.laps[phase]) for run in runs]).median * 1e6, 2),
        round(p99(samples) * 1e6, 2),
        _ratio(phase, column, rounds),
        round(spread([run.num_exchanges / run.num_operations for run in runs]).median, 4),
        round(spread([run.client_cpu_s / run.num_operations for run in runs]).median * 1e6, 2),
        round(spread([run.service_cpu_s / run.num_operations for run in runs]).median * 1e6, 2),
    )


def _ratio(phase: str, column: int, rounds: Sequence[Sequence[Run]]) -> list[float]:
    """Empty where stock has no such phase."""
    ratios = []
    for row in rounds:
        first, last, own = row[0].laps, row[-1].laps, row[column].laps
        if phase in first and phase in last and phase in own:
            before, after = p50(first[phase]), p50(last[phase])
            mean = (before + after) / 2
            ratios.append(after / before if column == 0 else p50(own[phase]) / mean)
    return spread(ratios).rounded() if ratios else []
