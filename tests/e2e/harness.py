"""Runs engines for tests and compares what they answered."""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from kvquarry_vllm.demo.engine import EngineRun
from kvquarry_vllm.demo.job import (
    EngineJob,
    EngineResult,
    PromptRequest,
    RequestResult,
    Wave,
)
from kvquarry_vllm.demo.service import read_status
from kvquarry_vllm.demo.workload import equality_waves

ROOT = Path(__file__).resolve().parents[2]
SEEDS = (1, 2, 3)
ENGINE_TIMEOUT_S = 240.0
EXIT_TIMEOUT_S = 30.0
#: How far a logprob may be off where both sides round otherwise: a hundred times what was seen.
_ROUNDING = 1e-4


class Engines:
    """Runs engines one after another, each with a log of its own."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._num_started = 0

    def run(self, job: EngineJob) -> EngineResult:
        """What an engine answers; it is killed when it has."""
        with self.started(job) as run:
            return run.wait_for_result(timeout_s=ENGINE_TIMEOUT_S)

    @contextmanager
    def served(self, job: EngineJob) -> Iterator[EngineResult]:
        """An engine that has served all its requests and still lives; then it ends by itself."""
        with self.started(job) as run:
            yield run.wait_for_result(timeout_s=ENGINE_TIMEOUT_S)
            assert run.wait_for_exit(timeout_s=EXIT_TIMEOUT_S) == 0, run.log_tail()

    @contextmanager
    def started(self, job: EngineJob) -> Iterator[EngineRun]:
        """An engine's process, alive until the end of the block unless it is killed."""
        self._num_started += 1
        log = self._folder / f"engine-{self._num_started}.log"
        held = replace(job, hold=True, env={**_python_path(), **job.env})
        with EngineRun(held, log=log) as run:
            yield run


def all_waves(*seeds: int) -> tuple[Wave, ...]:
    """The equality workload of several seeds, one after another."""
    return tuple(wave for seed in seeds for wave in equality_waves(seed))


def parting_prompts(num_tokens: int, num_shared: int) -> tuple[Wave, Wave]:
    """A prompt, and after it another that begins like it; equal to none of the workload's."""
    prompt = tuple(3 + index * index % 211 for index in range(num_tokens))
    other = tuple(3 + index * index % 199 for index in range(num_tokens))
    parting = (*prompt[:num_shared], *other[num_shared:])
    return (PromptRequest(prompt, 4),), (PromptRequest(parting, 4),)


def sabotaged(job: EngineJob, fault: str) -> EngineJob:
    """The same job with a module of ``tests.e2e.sabotage`` in its engine."""
    return replace(job, preload=(f"tests.e2e.sabotage.{fault}",))


def differing(stock: EngineResult, other: EngineResult) -> list[int]:
    """The requests that got other tokens or logprobs than from stock, bit for bit.

    ``other`` may have served only the first waves of what stock served.
    """
    assert other.requests, "nothing was compared"
    pairs = zip(stock.requests, other.requests, strict=False)
    return [index for index, (one, two) in enumerate(pairs) if one.bits != two.bits]


def differing_beyond_rounding(stock: EngineResult, other: EngineResult) -> list[int]:
    """The requests that got other tokens, or a token's logprob that rounding does not explain."""
    assert len(other.requests) == len(stock.requests)
    pairs = zip(stock.requests, other.requests, strict=True)
    return [index for index, (one, two) in enumerate(pairs) if not _are_near(one, two)]


def _are_near(one: RequestResult, two: RequestResult) -> bool:
    logprobs = zip(_said_logprobs(one), _said_logprobs(two), strict=False)
    return one.tokens == two.tokens and all(abs(a - b) < _ROUNDING for a, b in logprobs)


def _said_logprobs(result: RequestResult) -> list[float]:
    """Those of the tokens that were said."""
    return [
        candidate.logprob
        for token, place in zip(result.tokens, result.candidates, strict=True)
        for candidate in place
        if candidate.token == token
    ]


def pools_of(target: str, engine: str) -> Sequence[Any]:
    """The status of the pools that an engine of this name has at the service."""
    pools = read_status(target).pools
    return [pool for pool in pools if any(a.engine == engine for a in pool.attachments)]


def class_changes(target: str, engine: str) -> Mapping[tuple[int, int], int]:
    """How often a slab of the engine's pool went from one size class to another."""
    (pool,) = pools_of(target, engine)
    changes = pool.counters.class_changes
    return {(change.from_class, change.to_class): change.count for change in changes}


def num_moved(target: str, engine: str) -> Sequence[int]:
    """How many blocks of each size class were moved to make room."""
    (pool,) = pools_of(target, engine)
    moved: Sequence[int] = pool.counters.move_counts
    return moved


def _python_path() -> dict[str, str]:
    """Lets an engine import the modules of ``tests.e2e.sabotage``."""
    entries = [str(ROOT), os.environ.get("PYTHONPATH", "")]
    return {"PYTHONPATH": os.pathsep.join(filter(None, entries))}
