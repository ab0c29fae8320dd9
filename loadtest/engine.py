"""Real vLLM, stock and with kvquarry, under the same requests: ``python -m loadtest.engine``.

A tiny Qwen3-Next on the CPU, one thread. Its forward pass takes milliseconds, so that what the
scheduler costs is a far larger share of a step than with a model anybody serves.
"""

import random
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

from kvquarry_vllm.demo.checkpoint import VOCAB_SIZE, qwen3_next, write_checkpoint
from kvquarry_vllm.demo.engine import run_engine
from kvquarry_vllm.demo.job import EngineJob, EngineResult, PromptRequest, Wave
from kvquarry_vllm.demo.jobs import MIB
from loadtest.benchmarks.tables import say
from loadtest.real_engine import (
    ENGINE_TIMEOUT_S,
    STOCK,
    STOCK_AGAIN,
    Arm,
    alternated,
    common_options,
    markdown_table,
    parser_of,
    ratio_to_stock,
    workplace,
)
from loadtest.real_engine_probe import PROBE_ENV, StepProbe, WaveProbe, read_probe

#: What stock makes of any smaller ``--block-size`` for this model that is a multiple of 64.
STOCK_BLOCK_TOKENS: Final = 192
BLOCK_TOKENS: Final = 64
MAX_RUNNING: Final = 32

ARMS: Final = (
    Arm(STOCK, None, STOCK_BLOCK_TOKENS),
    Arm("unix:", "unix:", BLOCK_TOKENS),
    Arm("inproc:", "inproc:", BLOCK_TOKENS),
    Arm(STOCK_AGAIN, None, STOCK_BLOCK_TOKENS),
)
QUICK_ARMS: Final = ARMS[:3]

_NUM_RUNS: Final = 5
_NUM_PREFIXES: Final = 8


@dataclass(frozen=True, slots=True)
class Figures:
    """What one engine measured in one workload.

    A share is of steps that made no exchange. The engine's CPU time tells what the wall clock
    cannot where other programs compete for the processor; waiting for the service is not in it.
    """

    output_tokens_per_s: float
    ttft_p50_ms: float
    ttft_p99_ms: float
    inter_token_p50_ms: float
    inter_token_p99_ms: float
    cpu_per_output_token_ms: float
    scheduler_mean_ms: float
    scheduler_decode_p50_ms: float
    num_steps: int
    num_decode_steps: int
    exchanges_per_step: float
    quiet_step_share: float
    quiet_decode_step_share: float
    num_cached_tokens: int
    num_prompt_tokens: int

    @classmethod
    def of(cls, probe: WaveProbe, wave: Wave, result: EngineResult, first: int) -> "Figures":
        """From a wave whose first request is the engine's ``first``."""
        served = result.requests[first : first + len(wave)]
        num_output_tokens = sum(len(one.tokens) for one in served)
        decode_steps = [step for step in probe.steps if step.decodes_only]
        return cls(
            output_tokens_per_s=num_output_tokens / probe.wall_s,
            ttft_p50_ms=_percentile_ms(probe.ttft_s, 50),
            ttft_p99_ms=_percentile_ms(probe.ttft_s, 99),
            inter_token_p50_ms=_percentile_ms(probe.inter_token_s, 50),
            inter_token_p99_ms=_percentile_ms(probe.inter_token_s, 99),
            cpu_per_output_token_ms=1e3 * probe.cpu_s / num_output_tokens,
            scheduler_mean_ms=1e3 * statistics.fmean(step.scheduler_s for step in probe.steps),
            scheduler_decode_p50_ms=_percentile_ms([s.scheduler_s for s in decode_steps], 50),
            num_steps=len(probe.steps),
            num_decode_steps=len(decode_steps),
            exchanges_per_step=statistics.fmean(step.num_exchanges for step in probe.steps),
            quiet_step_share=_quiet_share(probe.steps),
            quiet_decode_step_share=_quiet_share(decode_steps),
            num_cached_tokens=sum(one.num_cached_tokens for one in served),
            num_prompt_tokens=sum(len(one.prompt) for one in wave),
        )


Run = Mapping[str, Figures]
"""One engine's figures by workload."""


def main() -> None:
    """Measure and print."""
    args = parser_of(__doc__, _NUM_RUNS).parse_args()
    if args.quick:
        runs = measure_arms(QUICK_ARMS, 1, quick_workloads())
    else:
        runs = measure_arms(ARMS, args.runs, full_workloads())
    say(tables(runs), as_json=to_dict(runs) if args.json else None)


def measure_arms(
    arms: Sequence[Arm], num_runs: int, workloads: Mapping[str, Wave]
) -> dict[str, list[Run]]:
    """What each arm measured in each run."""
    with workplace() as (folder, service):
        model = write_checkpoint(qwen3_next(), folder / "model")

        def measure(arm: Arm) -> Run:
            return run_arm(arm, workloads, job_of(arm, model, service, workloads), folder)

        return alternated(arms, num_runs, measure)


def full_workloads() -> dict[str, Wave]:
    """The requests of each workload; 32 of them run at a time."""
    return {
        "decode-heavy": decode_heavy(64, max_tokens=160),
        "prefill-heavy": prefill_heavy(64),
        "short shared prefixes": short_shared_prefixes(128),
    }


def quick_workloads() -> dict[str, Wave]:
    """Little of the same."""
    return {
        "decode-heavy": decode_heavy(32, max_tokens=24),
        "prefill-heavy": prefill_heavy(8),
        "short shared prefixes": short_shared_prefixes(48),
    }


def decode_heavy(num_requests: int, max_tokens: int) -> Wave:
    """Prompts of their own, too short for anybody's cache: hits are equal."""
    source = random.Random(1)
    return tuple(
        PromptRequest(_tokens(source, source.randrange(40, 64)), max_tokens)
        for _ in range(num_requests)
    )


def prefill_heavy(num_requests: int) -> Wave:
    """Long prompts of their own: hits are equal."""
    source = random.Random(2)
    return tuple(
        PromptRequest(_tokens(source, source.randrange(700, 1000)), 8) for _ in range(num_requests)
    )


def short_shared_prefixes(num_requests: int) -> Wave:
    """Questions behind a few system prompts of 180 tokens, less than a block of stock's."""
    source = random.Random(3)
    prefixes = [_tokens(source, 180) for _ in range(_NUM_PREFIXES)]
    return tuple(
        PromptRequest(prefixes[index % _NUM_PREFIXES] + _tokens(source, 40), 8)
        for index in range(num_requests)
    )


def job_of(arm: Arm, model: Path, service: str, workloads: Mapping[str, Wave]) -> EngineJob:
    """The workloads one after another, behind a wave that warms the kernels up."""
    options = common_options(
        arm,
        max_model_len=1024,
        max_num_seqs=MAX_RUNNING,
        max_num_batched_tokens=2048,
        kv_cache_memory_bytes=256 * MIB,  # room for all: nobody preempts
    )
    return EngineJob(
        str(model),
        options,
        (prefill_heavy(4), *workloads.values()),
        arm.env(service),
        preload=("loadtest.real_engine_preload",),
    )


def run_arm(arm: Arm, workloads: Mapping[str, Wave], job: EngineJob, folder: Path) -> Run:
    """One engine's life."""
    probe = folder / "probe.jsonl"
    probe.unlink(missing_ok=True)
    job = replace(job, env={**job.env, PROBE_ENV: str(probe)})
    result = run_engine(job, log=folder / "engine.log", timeout_s=ENGINE_TIMEOUT_S)
    _check(arm, result)
    figures: dict[str, Figures] = {}
    first = len(job.waves[0])
    for (name, wave), probed in zip(workloads.items(), read_probe(probe)[1:], strict=True):
        figures[name] = Figures.of(probed, wave, result, first)
        first += len(wave)
    return figures


def to_dict(runs: Mapping[str, Sequence[Run]]) -> dict[str, Any]:
    """Every figure of every run."""
    data = {
        name: [{workload: asdict(figures) for workload, figures in run.items()} for run in of_arm]
        for name, of_arm in runs.items()
    }
    return {"num_runs": len(runs[STOCK]), "arms": data}


def tables(runs: Mapping[str, Sequence[Run]]) -> str:
    """One table a workload: medians, and throughput's ratio to stock of the same run."""
    return "\n\n".join(f"{name}\n\n{_table(name, runs)}" for name in runs[STOCK][0])


def _table(workload: str, runs: Mapping[str, Sequence[Run]]) -> str:
    of_arm = {name: [run[workload] for run in each] for name, each in runs.items()}
    rows = [
        [title, *(show(_median(figures, name)) for figures in of_arm.values())]
        for title, name, show in _ROWS
    ]
    stock = of_arm[STOCK]
    for title, name in _RATIOS:
        ratios = (
            ratio_to_stock(_each(figures, name), _each(stock, name)) for figures in of_arm.values()
        )
        rows.append([title, *map(str, ratios)])
    return markdown_table(["", *of_arm], rows)


_ROWS: Final[Sequence[tuple[str, str, Callable[[float], str]]]] = (
    ("output tokens/s", "output_tokens_per_s", "{:.0f}".format),
    ("TTFT p50, ms", "ttft_p50_ms", "{:.0f}".format),
    ("TTFT p99, ms", "ttft_p99_ms", "{:.0f}".format),
    ("inter-token p50, ms", "inter_token_p50_ms", "{:.1f}".format),
    ("inter-token p99, ms", "inter_token_p99_ms", "{:.1f}".format),
    ("engine's CPU per output token, ms", "cpu_per_output_token_ms", "{:.3f}".format),
    ("scheduler per step, mean, ms", "scheduler_mean_ms", "{:.2f}".format),
    ("scheduler per decode step, p50, ms", "scheduler_decode_p50_ms", "{:.2f}".format),
    ("steps", "num_steps", "{:.0f}".format),
    ("exchanges per step", "exchanges_per_step", "{:.3f}".format),
    ("steps without exchange", "quiet_step_share", "{:.1%}".format),
    ("decode steps without exchange", "quiet_decode_step_share", "{:.1%}".format),
    ("prompt tokens found in the cache", "num_cached_tokens", "{:.0f}".format),
)
_RATIOS: Final = (
    ("output tokens/s over stock", "output_tokens_per_s"),
    ("TTFT p50 over stock", "ttft_p50_ms"),
    ("inter-token p50 over stock", "inter_token_p50_ms"),
    ("engine's CPU per token over stock", "cpu_per_output_token_ms"),
    ("scheduler per step over stock", "scheduler_mean_ms"),
    ("scheduler per decode step over stock", "scheduler_decode_p50_ms"),
)


def _each(figures: Sequence[Figures], name: str) -> list[float]:
    return [getattr(one, name) for one in figures]


def _median(figures: Sequence[Figures], name: str) -> float:
    return statistics.median(_each(figures, name))


def _quiet_share(steps: Sequence[StepProbe]) -> float:
    return sum(not step.num_exchanges for step in steps) / len(steps)


def _percentile_ms(times_s: Sequence[float], percent: int) -> float:
    return 1e3 * statistics.quantiles(times_s, n=100, method="inclusive")[percent - 1]


def _check(arm: Arm, result: EngineResult) -> None:
    """A benchmark of the wrong engine, or of one that ran out of memory, is worth nothing."""
    assert result.served_by_kvquarry == (arm.target is not None), result.manager
    assert result.block_size_tokens == arm.block_tokens, result.block_size_tokens
    assert not result.num_preemptions, f"{arm.name} preempted {result.num_preemptions} times"


def _tokens(source: random.Random, count: int) -> tuple[int, ...]:
    return tuple(source.randrange(3, VOCAB_SIZE) for _ in range(count))


if __name__ == "__main__":
    main()
