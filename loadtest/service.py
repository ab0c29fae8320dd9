"""Many simulated engines against one service, up to saturation, and fairness between two.

Run from the repository's root: ``python -m loadtest.service``. See docs/benchmarks.md.
"""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass

from loadtest.benchmarks.engine_processes import engine_processes
from loadtest.benchmarks.mixes import DECODE_HEAVY, PREFILL_HEAVY
from loadtest.benchmarks.recording import Recording, record
from loadtest.benchmarks.saturation import (
    Bench,
    fairness,
    fairness_table,
    saturation,
    saturation_table,
)
from loadtest.benchmarks.service_process import own_service
from loadtest.benchmarks.tables import say


@dataclass(frozen=True, slots=True)
class Extent:
    """How much is measured.

    Attributes:
        num_rounds: Rounds in which every case is run once.
        run_s: Seconds of one run.
        num_engines: Numbers of engines.
        num_steps: Scheduler steps in a recording.
    """

    num_rounds: int
    run_s: float
    num_engines: tuple[int, ...]
    num_steps: int


_FULL = Extent(5, 3.0, (1, 2, 4, 8), 1000)
_QUICK = Extent(2, 0.3, (1, 2), 60)


def main(argv: Sequence[str] | None = None) -> None:
    """Measure and print."""
    arguments = _parser().parse_args(argv)
    extent = _QUICK if arguments.quick else _FULL
    with own_service() as service:
        recordings = [
            record(service.target, mix, num_steps=extent.num_steps)
            for mix in (DECODE_HEAVY, PREFILL_HEAVY)
        ]
        with engine_processes(service.target, max(extent.num_engines)) as engines:
            bench = Bench(service, engines, extent.num_rounds, extent.run_s)
            load = saturation(bench, recordings, extent.num_engines)
            fair = [fairness(bench, recording) for recording in recordings]
    document = {
        "benchmark": "service",
        "num_rounds": extent.num_rounds,
        "run_s": extent.run_s,
        "recordings": [_facts(recording) for recording in recordings],
        "saturation": load,
        "fairness": fair,
    }
    text = saturation_table(load) + "\n" + fairness_table(fair)
    say(text, as_json=document if arguments.json else None)


def _facts(recording: Recording) -> dict[str, object]:
    return {
        "mix": recording.mix,
        "batches": len(recording.batches),
        "exchanges": sum(one.response is not None for one in recording.batches),
        "operations": sum(one.num_operations for one in recording.batches),
        "effects": recording.effects,
    }


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m loadtest.service", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a look whether it works")
    parser.add_argument("--json", action="store_true", help="JSON on stdout, the table on stderr")
    return parser


if __name__ == "__main__":
    main()
