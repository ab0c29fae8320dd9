"""What one engine's flood does to another's admissions.

The engines of a benchmark share processors with each other and with the service, as no engines in
production do: a flood's own process takes time from the calm engine's, whatever the service does.
So the flood is run twice, once at nice 19, where its process gets what all others leave; and a
process that only burns time shows what a neighbour costs who says nothing to the service.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from loadtest.benchmarks.bench import Bench
from loadtest.benchmarks.engine_processes import Burn, Engines, Order
from loadtest.benchmarks.recording import Recording
from loadtest.benchmarks.replay import Pace, Tally
from loadtest.benchmarks.rounds import alternated
from loadtest.benchmarks.samples import p50, p99, spread
from loadtest.benchmarks.tables import progress, table

_FLOOD = Pace(num_in_flight=64)
_CALM = Pace(num_in_flight=1, admission_pause_s=0.005)

_ALONE = "alone"
#: Who is beside the calm engine.
CASES = (_ALONE, "burner", "calm", "flood", "flood at nice 19")


@dataclass(frozen=True, slots=True)
class _Run:
    admissions_s: list[float]
    num_mismatches: int


def fairness(bench: Bench, recording: Recording) -> dict[str, Any]:
    """A calm engine's admissions, alone and beside others."""

    def run(case: str) -> _Run:
        tallies = _run(bench, recording, case)
        return _Run(tallies[0].admissions_s, sum(tally.num_mismatches for tally in tallies))

    tell = progress(f"fairness, {recording.mix}")
    rounds = alternated(CASES, bench.num_rounds, run, tell)
    return {
        "mix": recording.mix,
        "cases": {
            case: _figures([row[number] for row in rounds], [row[0] for row in rounds])
            for number, case in enumerate(CASES)
        },
        "mismatches": sum(one.num_mismatches for row in rounds for one in row),
    }


def fairness_table(fair: Sequence[dict[str, Any]]) -> str:
    """For people."""
    head = ("mix", "beside", "admissions", "p50 us", "p99 us", "p99 to alone", "least", "most")
    rows = [
        [one["mix"], case, figures["admissions"], figures["p50_us"], figures["p99_us"],
         *figures["p99_to_alone"]]
        for one in fair
        for case, figures in one["cases"].items()
    ]  # fmt: skip
    return table("a calm engine's admissions; a flood has 64 messages in flight", head, rows)


def _run(bench: Bench, recording: Recording, case: str) -> list[Tally]:
    calm = Order("calm", recording, _CALM, bench.run_s)
    flood = Order("flood", recording, _FLOOD, bench.run_s)
    first, second = bench.engines.pipes[:2]
    match case:
        case "burner":
            return Engines([first, second]).run([calm, Burn(bench.run_s)])
        case "calm":
            other = Order("other", recording, _CALM, bench.run_s)
            return Engines([first, second]).run([calm, other])
        case "flood":
            return Engines([first, second]).run([calm, flood])
        case "flood at nice 19":
            return Engines([first, *bench.background.pipes]).run([calm, flood])
        case _:
            return Engines([first]).run([calm])


def _figures(runs: Sequence[_Run], alone: Sequence[_Run]) -> dict[str, Any]:
    """Percentiles are of all rounds together: one round has too few admissions for a p99."""
    admissions = [one for run in runs for one in run.admissions_s]
    ratios = [
        p99(run.admissions_s) / p99(other.admissions_s)
        for run, other in zip(runs, alone, strict=True)
    ]
    return {
        "admissions": len(admissions),
        "p50_us": round(p50(admissions) * 1e6, 1),
        "p99_us": round(p99(admissions) * 1e6, 1),
        "p99_to_alone": spread(ratios).rounded(),
    }
