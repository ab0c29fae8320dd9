"""What a service does at most: engines that send as fast as they are answered."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from loadtest.benchmarks.bench import Bench
from loadtest.benchmarks.engine_processes import Order
from loadtest.benchmarks.recording import Recording
from loadtest.benchmarks.replay import Pace, Tally
from loadtest.benchmarks.rounds import alternated
from loadtest.benchmarks.samples import p50, p99, spread
from loadtest.benchmarks.tables import progress, table

_FLAT_OUT = Pace(num_in_flight=8)


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

    tell = progress("saturation")
    rounds = alternated(cases, bench.num_rounds, run, tell)
    return [
        {"mix": recording.mix, "num_engines": count, **_figures([row[index] for row in rounds])}
        for index, (recording, count) in enumerate(cases)
    ]


def saturation_table(load: Sequence[dict[str, Any]]) -> str:
    """For people."""
    head = (
        *("mix", "engines", "effects/s", "effects/cpu s", "least", "most", "service cores"),
        *("messages/s", "p50 us", "p99 us", "mismatches"),
    )
    rows = [
        [
            *(one["mix"], one["num_engines"], one["effects_per_s"]),
            *one["effects_per_service_cpu_s"],
            *(one["service_cores"], one["messages_per_s"], one["exchange_p50_us"]),
            *(one["exchange_p99_us"], one["mismatches"]),
        ]
        for one in load
    ]
    return table("one service, engines flat out, 8 messages in flight each", head, rows)


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
        "messages_per_s": _median([load.total("num_messages") / load.elapsed_s for load in loads]),
        "operations_per_s": _median(
            [load.total("num_operations") / load.elapsed_s for load in loads]
        ),
        "exchange_p50_us": round(p50(exchanges) * 1e6, 1),
        "exchange_p99_us": round(p99(exchanges) * 1e6, 1),
        "mismatches": sum(load.total("num_mismatches") for load in loads),
    }


def _median(figures: Sequence[float]) -> float:
    return round(spread(figures).median, 1)
