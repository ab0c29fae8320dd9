"""What a service does at most, and what one engine's flood does to another's admissions."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from loadtest.benchmarks.engine_processes import Engines, Order
from loadtest.benchmarks.recording import Recording
from loadtest.benchmarks.replay import Pace, Tally
from loadtest.benchmarks.rounds import alternated
from loadtest.benchmarks.samples import p50, p99, spread
from loadtest.benchmarks.service_process import ServiceProcess
from loadtest.benchmarks.tables import table

_FLAT_OUT = Pace(num_in_flight=8)
_FLOOD = Pace(num_in_flight=64)
_CALM = Pace(num_in_flight=1, admission_pause_s=0.005)


@dataclass(frozen=True, slots=True)
class Bench:
    """Where it is measured, and for how long."""

    service: ServiceProcess
    engines: Engines
    num_rounds: int
    run_s: float


@dataclass(frozen=True, slots=True)
class _Load:
    """One run of some engines."""

    tallies: list[Tally]
    service_cpu_s: float

    def total(self, name: str) -> int:
        return sum(int(getattr(tally, name)) for tally in self.tallies)

    @property
    def elapsed_s(self) -> float:
        return max(tally.elapsed_s for tally in self.tallies)

    @property
    def exchanges_s(self) -> list[float]:
        return [one for tally in self.tallies for one in tally.exchanges_s]


def saturation(
    bench: Bench, recordings: Sequence[Recording], counts: Sequence[int]
) -> list[dict[str, Any]]:
    """Effects per second, and times of exchanges, by mix and number of engines."""
    cases = [(recording, count) for recording in recordings for count in counts]

    def run(case: tuple[Recording, int]) -> _Load:
        recording, count = case
        return _run(bench, recording, [_FLAT_OUT] * count)

    rounds = alternated(cases, bench.num_rounds, run)
    return [
        {"mix": recording.mix, "num_engines": count, **_figures([row[index] for row in rounds])}
        for index, (recording, count) in enumerate(cases)
    ]


def fairness(bench: Bench, recording: Recording) -> dict[str, Any]:
    """A calm engine's admissions alone, beside another calm engine, and beside a flood."""
    cases = ([_CALM], [_CALM, _CALM], [_CALM, _FLOOD])
    rounds = alternated(cases, bench.num_rounds, lambda paces: _run(bench, recording, paces))
    admissions = [[load.tallies[0].admissions_s for load in row] for row in rounds]
    return {
        "mix": recording.mix,
        "p50_us": [_median_us([p50(row[index]) for row in admissions]) for index in range(3)],
        "p99_us": [_median_us([p99(row[index]) for row in admissions]) for index in range(3)],
        "calm_ratio": spread([p99(row[1]) / p99(row[0]) for row in admissions]).rounded(),
        "flood_ratio": spread([p99(row[2]) / p99(row[0]) for row in admissions]).rounded(),
        "mismatches": sum(load.total("num_mismatches") for row in rounds for load in row),
        "admissions": len(admissions[0][0]),
    }


def saturation_table(load: Sequence[dict[str, Any]]) -> str:
    """For people."""
    head = (
        *("mix", "engines", "effects/s", "effects/cpu s", "least", "most", "service cores"),
        *("batches/s", "p50 us", "p99 us", "mismatches"),
    )
    rows = [
        [
            *(one["mix"], one["num_engines"], one["effects_per_s"]),
            *one["effects_per_service_cpu_s"],
            *(one["service_cores"], one["batches_per_s"], one["exchange_p50_us"]),
            *(one["exchange_p99_us"], one["mismatches"]),
        ]
        for one in load
    ]
    return table("one service, engines flat out, 8 messages in flight each", head, rows)


def fairness_table(fair: Sequence[dict[str, Any]]) -> str:
    """For people."""
    head = ("mix", "alone p99 us", "beside calm", "beside flood", "flood/alone", "least", "most")
    rows = [[one["mix"], *one["p99_us"], *one["flood_ratio"]] for one in fair]
    return table("a calm engine's admissions, a flood of 64 messages in flight", head, rows)


def _run(bench: Bench, recording: Recording, paces: Sequence[Pace]) -> _Load:
    orders = [
        Order(f"engine-{number}", recording, pace, bench.run_s) for number, pace in enumerate(paces)
    ]
    before = bench.service.cpu_s()
    tallies = bench.engines.run(orders)
    return _Load(tallies, bench.service.cpu_s() - before)


def _figures(loads: Sequence[_Load]) -> dict[str, Any]:
    per_cpu_s = spread([load.total("num_effects") / load.service_cpu_s for load in loads])
    exchanges = [one for load in loads for one in load.exchanges_s]
    return {
        "effects_per_s": _median([load.total("num_effects") / load.elapsed_s for load in loads]),
        "effects_per_service_cpu_s": per_cpu_s.rounded(0),
        "service_cores": spread([load.service_cpu_s / load.elapsed_s for load in loads]).median,
        "batches_per_s": _median([load.total("num_batches") / load.elapsed_s for load in loads]),
        "operations_per_s": _median(
            [load.total("num_operations") / load.elapsed_s for load in loads]
        ),
        "exchange_p50_us": round(p50(exchanges) * 1e6, 1),
        "exchange_p99_us": round(p99(exchanges) * 1e6, 1),
        "mismatches": sum(load.total("num_mismatches") for load in loads),
    }


def _median(figures: Sequence[float]) -> float:
    return round(spread(figures).median, 1)


def _median_us(seconds: Sequence[float]) -> float:
    return round(spread(seconds).median * 1e6, 1)
