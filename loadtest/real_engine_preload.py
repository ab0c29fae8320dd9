"""Preloaded into an engine process: times its scheduler and notes what its requests waited for.

Every ``generate`` begins with an empty prefix cache and ends with one line of JSON, a
``WaveProbe``, in the file that LOADTEST_PROBE names.
"""

import json
import os
import time
from collections.abc import Callable
from dataclasses import asdict
from functools import wraps
from pathlib import Path
from typing import TypeVar

from vllm import LLM
from vllm.v1.core.sched.output import SchedulerOutput
from vllm.v1.core.sched.scheduler import Scheduler
from vllm.v1.engine.output_processor import OutputProcessor
from vllm.v1.metrics.stats import IterationStats

from loadtest.real_engine_probe import PROBE_ENV, StepProbe, WaveProbe

_Result = TypeVar("_Result")


class _Probe:
    """Fills the wave that is being served."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._wave = WaveProbe()

    def install(self) -> None:
        """Wrap what the engine calls."""
        for owner, name, wrap in (
            (Scheduler, "schedule", self._timed_schedule),
            (Scheduler, "update_from_output", self._timed_update),
            (OutputProcessor, "process_outputs", self._noted_outputs),
            (LLM, "generate", self._separate_waves),
        ):
            setattr(owner, name, wrap(getattr(owner, name)))

    def _timed_schedule(
        self, schedule: Callable[..., SchedulerOutput]
    ) -> Callable[..., SchedulerOutput]:
        @wraps(schedule)
        def timed(scheduler: Scheduler, *args: object, **kwargs: object) -> SchedulerOutput:
            before, begun = _num_exchanges(scheduler), time.perf_counter()
            output = schedule(scheduler, *args, **kwargs)
            took_s = time.perf_counter() - begun
            if output.total_num_scheduled_tokens:
                num_exchanges = _num_exchanges(scheduler) - before
                step = StepProbe(_decodes_only(output), took_s, 0.0, num_exchanges)
                self._wave.steps.append(step)
            return output

        return timed

    def _timed_update(self, update: Callable[..., _Result]) -> Callable[..., _Result]:
        @wraps(update)
        def timed(scheduler: Scheduler, *args: object, **kwargs: object) -> _Result:
            before, begun = _num_exchanges(scheduler), time.perf_counter()
            outputs = update(scheduler, *args, **kwargs)
            if self._wave.steps:
                step = self._wave.steps[-1]
                step.update_s += time.perf_counter() - begun
                step.num_exchanges += _num_exchanges(scheduler) - before
            return outputs

        return timed

    def _noted_outputs(self, process: Callable[..., _Result]) -> Callable[..., _Result]:
        @wraps(process)
        def noted(processor: OutputProcessor, *args: object, **kwargs: object) -> _Result:
            processed = process(processor, *args, **kwargs)
            stats = kwargs.get("iteration_stats")
            if isinstance(stats, IterationStats):
                self._wave.ttft_s += stats.time_to_first_tokens_iter
                self._wave.inter_token_s += stats.inter_token_latencies_iter
            return processed

        return noted

    def _separate_waves(self, generate: Callable[..., _Result]) -> Callable[..., _Result]:
        @wraps(generate)
        def separate(llm: LLM, *args: object, **kwargs: object) -> _Result:
            forgotten = llm.reset_prefix_cache()
            assert forgotten, "requests of the wave before still hold blocks"
            self._wave = WaveProbe()
            begun, begun_cpu = time.perf_counter(), time.process_time()
            outputs = generate(llm, *args, **kwargs)
            self._wave.wall_s = time.perf_counter() - begun
            self._wave.cpu_s = time.process_time() - begun_cpu
            with self._path.open("a") as file:
                file.write(json.dumps(asdict(self._wave)) + "\n")
            return outputs

        return separate


def _num_exchanges(scheduler: Scheduler) -> int:
    """None are made by stock's manager, which has no shadow."""
    shadow = getattr(scheduler.kv_cache_manager, "shadow", None)
    return 0 if shadow is None else shadow.ledger.num_exchanges


def _decodes_only(output: SchedulerOutput) -> bool:
    num_tokens = output.num_scheduled_tokens.values()
    return not output.scheduled_new_reqs and set(num_tokens) == {1}


_Probe(Path(os.environ[PROBE_ENV])).install()
