"""``python -m kvquarry_vllm.demo``: real vLLM engines, stock and on kvquarry, side by side."""

import argparse
import json
import signal
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any, Final, NoReturn

from rich.console import Console

from kvquarry_vllm.demo.checkpoint import ARCHITECTURES, VOCAB_SIZE, write_checkpoint
from kvquarry_vllm.demo.engine import EngineFailure, EngineRun, ProgressSink
from kvquarry_vllm.demo.job import EngineJob, EngineResult
from kvquarry_vllm.demo.jobs import (
    EQUALITY_BLOCK_TOKENS,
    HITS_BLOCK_TOKENS,
    TIGHT_POOL_BYTES,
    equality_job,
    hits_job,
    kvquarry_env,
    stock_env,
)
from kvquarry_vllm.demo.preflight import this_processor
from kvquarry_vllm.demo.progress import Progress, Say, progress_on
from kvquarry_vllm.demo.report import Equality, Hits, Report, num_equal, show
from kvquarry_vllm.demo.service import ServiceFailure, ServiceProcess, read_status
from kvquarry_vllm.demo.tokenizer import word, write_tokenizer
from kvquarry_vllm.demo.workload import equality_waves

_ENGINE_TIMEOUT_S: Final = 300.0
#: The usual port for metrics may be taken by a service that runs here already.
_SERVICE_OPTIONS: Final = ("--metrics-listen", "127.0.0.1:0")
_EXIT_DIFFERENT: Final = 1
_EXIT_BROKEN: Final = 2


def main(argv: Sequence[str] | None = None) -> int:
    """Run the demo; 0 when all outputs were equal, 1 when not, 2 when something did not run."""
    parser = argparse.ArgumentParser(prog="python -m kvquarry_vllm.demo", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    parser.add_argument(
        "--write-model",
        type=Path,
        metavar="FOLDER",
        help="only write the demo's tiny model and a made-up tokenizer, to be served by hand",
    )
    arguments = parser.parse_args(argv)
    if arguments.write_model is not None:
        print(write_model(arguments.write_model))
        return 0
    as_json = arguments.json
    console = Console(stderr=as_json)
    signal.signal(signal.SIGTERM, _stop)  # so that no process is left then either
    try:
        report = run_demo(console)
    except KeyboardInterrupt:
        return _EXIT_BROKEN
    except (EngineFailure, ServiceFailure) as error:
        console.print(str(error), style="red", markup=False, highlight=False, soft_wrap=True)
        return _EXIT_BROKEN
    show(report, console)
    if as_json:
        print(json.dumps(report.to_dict(), indent=2))
    return 0 if report.equality.holds else _EXIT_DIFFERENT


def write_model(folder: Path) -> str:
    """Write the model that the demo shows on this processor; says what was written where."""
    name = this_processor().model
    write_checkpoint(ARCHITECTURES[name](), folder)
    write_tokenizer(folder)
    words = f"{word(3)} to {word(VOCAB_SIZE - 1)}"
    return f"{folder}: a tiny random {name}, with a tokenizer of the words {words}"


def _stop(signal_number: int, frame: FrameType | None) -> NoReturn:
    sys.exit(128 + signal_number)


def run_demo(console: Console) -> Report:
    """Measure everything; leaves no process and no file behind."""
    processor = this_processor()
    console.print(processor.verdict, markup=False, highlight=False, soft_wrap=True)
    name = processor.model
    progress = progress_on(console)
    with tempfile.TemporaryDirectory(prefix="kvquarry-") as folder:
        place = Path(folder)
        with progress.step(f"write a tiny random {name} checkpoint"):
            model = write_checkpoint(ARCHITECTURES[name](), place / name)
        stage = _Stage(model, place, progress)
        with progress.step("start kvquarry serve"):
            service = ServiceProcess(
                place / "kvquarry.sock", log=place / "service.log", options=_SERVICE_OPTIONS
            )
            service.start()
        try:
            stock, kvquarry = stage.measure_hits(service.target)
            equality = stage.compare_outputs(service.target)
        finally:
            service.close()
    return Report(processor.name, name, stock, kvquarry, equality)


class _Stage:
    """The engines of the demo, one after another on one checkpoint."""

    def __init__(self, model: Path, place: Path, progress: Progress) -> None:
        self._model = model
        self._place = place
        self._progress = progress

    def measure_hits(self, target: str) -> tuple[Hits, Hits]:
        """The hits of stock vLLM and of kvquarry, both told the same block size.

        For stock that is its best: it makes of it the smallest block whose page holds a state.
        """
        stock = self._run("stock vLLM", hits_job(self._model, stock_env()))
        ours = self._run("kvquarry", hits_job(self._model, kvquarry_env(target, "demo-hits")))
        _require_kvquarry(ours)
        return (
            Hits.of(stock, asked_block_tokens=HITS_BLOCK_TOKENS),
            Hits.of(ours, asked_block_tokens=HITS_BLOCK_TOKENS),
        )

    def compare_outputs(self, target: str) -> Equality:
        """Serve the same requests with both, kvquarry in a pool that makes memory change hands."""
        waves = equality_waves(seed=1)
        stock = self._run("stock vLLM", equality_job(self._model, stock_env(), waves))
        env = kvquarry_env(target, "demo-equality")
        options = {"kv_cache_memory_bytes": TIGHT_POOL_BYTES}
        job = equality_job(self._model, env, waves, **options)
        with self._served("kvquarry", job) as ours:
            num_class_changes = count_class_changes(target)
        _require_kvquarry(ours)
        return Equality(
            EQUALITY_BLOCK_TOKENS, len(stock.requests), num_equal(stock, ours), num_class_changes
        )

    def _run(self, name: str, job: EngineJob) -> EngineResult:
        with self._served(name, job) as result:
            return result

    @contextmanager
    def _served(self, name: str, job: EngineJob) -> Iterator[EngineResult]:
        """An engine that has served all its requests and still lives.

        It is killed in the end: vLLM takes seconds to end by itself.
        """
        title = f"{name} with --block-size {job.options['block_size']}"
        with (
            self._progress.step(title) as say,
            EngineRun(replace(job, hold=True), log=self._place / "engine.log") as run,
        ):
            say("starting")
            yield run.wait_for_result(timeout_s=_ENGINE_TIMEOUT_S, on_event=_telling(say))


def count_class_changes(target: str) -> int:
    """How often slabs of the pools at ``target`` went from one size class to another."""
    pools = read_status(target).pools
    return sum(change.count for pool in pools for change in pool.counters.class_changes)


def _telling(say: Say) -> ProgressSink:
    def tell(event: Mapping[str, Any]) -> None:
        if event["event"] == "started":
            say(f"started in {event['startup_s']:.0f} s")
        elif event["event"] == "wave":
            say(f"served {event['index'] + 1} of {event['num_waves']} waves of prompts")

    return tell


def _require_kvquarry(result: EngineResult) -> None:
    """A run that fell back to stock vLLM would compare stock with itself."""
    if not result.served_by_kvquarry:
        raise EngineFailure(
            f"KVQUARRY_TARGET was set, yet vLLM worked with {result.manager}: "
            "is kvquarry installed in this environment, with its vllm.general_plugins entry point?"
        )


if __name__ == "__main__":
    sys.exit(main())
