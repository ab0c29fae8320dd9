"""Many simulated engines against one service, up to saturation, and fairness between two.

Run from the repository's root: ``python -m loadtest.service``. See docs/benchmarks.md.
"""

import argparse
import importlib.util
from collections.abc import Sequence
from dataclasses import dataclass

from loadtest.benchmarks.bench import bench_of
from loadtest.benchmarks.fairness import fairness, fairness_table
from loadtest.benchmarks.mixes import DECODE_HEAVY, PREFILL_HEAVY
from loadtest.benchmarks.own_time import own_time, own_time_table
from loadtest.benchmarks.recording import Recording, record
from loadtest.benchmarks.saturation import saturation, saturation_table
from loadtest.benchmarks.service_process import own_service
from loadtest.benchmarks.tables import progress, say, table

_VLLM, _MADE_UP = "vllm", "made-up"


@dataclass(frozen=True, slots=True)
class Extent:
    """How much is measured.

    Attributes:
        num_rounds: Rounds in which every case is run once.
        run_s: Seconds of one run.
        num_engines: Numbers of engines.
        num_steps: Scheduler steps in a made-up recording.
        num_admissions: Of the calm engine, in the service's own time.
    """

    num_rounds: int
    run_s: float
    num_engines: tuple[int, ...]
    num_steps: int
    num_admissions: int


_FULL = Extent(5, 1.0, (1, 2, 8), 1000, 200)
_QUICK = Extent(2, 0.2, (1, 2), 60, 10)


def main(argv: Sequence[str] | None = None) -> None:
    """Measure and print."""
    arguments = _parser().parse_args(argv)
    extent = _QUICK if arguments.quick else _FULL
    mixes = arguments.mixes or (_MADE_UP if arguments.quick else _best_mixes())
    with own_service() as service:
        recordings = _recordings(service.target, mixes, extent)
        most = max(extent.num_engines)
        with bench_of(service, most, num_rounds=extent.num_rounds, run_s=extent.run_s) as bench:
            load = saturation(bench, recordings, extent.num_engines)
            fair = [fairness(bench, recording) for recording in recordings]
    own = [own_time(recording, extent.num_admissions) for recording in recordings]
    facts = [_facts(recording) for recording in recordings]
    document = {
        "benchmark": "service",
        "num_rounds": extent.num_rounds,
        "run_s": extent.run_s,
        "recordings": facts,
        "saturation": load,
        "fairness": fair,
        "own_time": own,
    }
    tables = (
        _facts_table(facts),
        saturation_table(load),
        fairness_table(fair),
        own_time_table(own),
    )
    text = "\n".join(tables)
    say(text, as_json=document if arguments.json else None)


def _best_mixes() -> str:
    return _VLLM if importlib.util.find_spec("vllm") else _MADE_UP


def _recordings(target: str, mixes: str, extent: Extent) -> list[Recording]:
    tell = progress("recording")
    if mixes == _MADE_UP:
        tell("made-up engines")
        return [
            record(target, mix, num_steps=extent.num_steps) for mix in (DECODE_HEAVY, PREFILL_HEAVY)
        ]
    # Importable with vLLM only.
    from loadtest.engine_recording import engine_waves, record_engine  # noqa: PLC0415

    recordings = []
    for mix, wave in engine_waves().items():
        tell(f"vLLM, {mix}, {len(wave)} requests")
        recordings.append(record_engine(target, mix, wave))
    return recordings


def _facts_table(facts: Sequence[dict[str, object]]) -> str:
    head = ("mix", "recorded from", "messages", "exchanges", "operations", "effects")
    names = ("mix", "source", "messages", "exchanges", "operations", "num_effects")
    return table("recordings", head, [[one[name] for name in names] for one in facts])


def _facts(recording: Recording) -> dict[str, object]:
    return {
        "mix": recording.mix,
        "source": recording.source,
        "messages": len(recording.messages),
        "exchanges": sum(one.response is not None for one in recording.messages),
        "operations": sum(one.num_operations for one in recording.messages),
        "num_effects": sum(recording.effects.values()),
        "effects": recording.effects,
    }


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m loadtest.service", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a look whether it works")
    parser.add_argument(
        "--mixes",
        choices=(_VLLM, _MADE_UP),
        help="whose messages are replayed: of real engines, or of made-up ones, which need no vLLM "
        f"(default: {_VLLM} where it is installed; {_MADE_UP} with --quick)",
    )
    parser.add_argument("--json", action="store_true", help="JSON on stdout, the table on stderr")
    return parser


if __name__ == "__main__":
    main()
