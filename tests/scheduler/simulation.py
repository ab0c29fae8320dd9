"""One scheduler, one pool and one scripted worker, run through a script of events."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol
from unittest.mock import patch

from vllm.config import VllmConfig
from vllm.sampling_params import SamplingParams
from vllm.utils.hashing import sha256_cbor
from vllm.v1.core.kv_cache_utils import get_request_block_hasher, init_none_hash
from vllm.v1.core.sched import scheduler as scheduler_module
from vllm.v1.core.sched.async_scheduler import AsyncScheduler
from vllm.v1.core.sched.scheduler import Scheduler
from vllm.v1.kv_cache_interface import KVCacheConfig
from vllm.v1.request import Request
from vllm.v1.structured_output import StructuredOutputManager

from kvquarry_vllm.gates.replacements import meeting_scheduler
from tests.scheduler.audit import DeferralAudit, OwnershipAudit, num_blocks_in_tables
from tests.scheduler.engine import Engine, EngineState, MakeEngine, PipelinedEngine, SteppedEngine
from tests.scheduler.language import Text
from tests.scheduler.layout import layout_of
from tests.scheduler.memory import PoolMemory
from tests.scheduler.settings import SchedulerSettings, make_vllm_config
from tests.scheduler.trace import Trace
from tests.scheduler.violation import Violation
from tests.scheduler.worker import ScriptedWorker
from tests.scheduler.workload import Arrival, Phase, Turn

HashFunction = Callable[[Any], bytes]
#: More turns than any script's requests need to finish once nothing new arrives.
_MOST_TURNS_TO_DRAIN = 4000


@dataclass(frozen=True)
class Pool:
    """A KV cache under test: how its memory is cut, who accounts for it, how to find leaks.

    Attributes:
        make_manager: What stands in for ``KVCacheManager``.
        num_held: Blocks that are in use or set aside, counted where they are handed out.
        leaks: What an idle scheduler's manager still holds, in words; nothing, if all is well.
    """

    name: str
    config: KVCacheConfig
    make_manager: Callable[..., Any]
    num_held: Callable[[Scheduler], int]
    leaks: Callable[[Scheduler], list[str]]


class PoolFactory(Protocol):
    """How to come by a pool for a configuration."""

    block_tokens: int

    def open(self, vllm_config: VllmConfig) -> Pool:
        """A new, empty pool."""
        ...


@dataclass(frozen=True)
class Loop:
    """A scheduler class and the loop that drives it."""

    name: str
    scheduler_class: type[Scheduler]
    make_engine: MakeEngine

    @property
    def overlaps(self) -> bool:
        """Whether steps are scheduled before earlier ones were processed."""
        return issubclass(self.scheduler_class, AsyncScheduler)


STEPPED = Loop("stepped", Scheduler, SteppedEngine)
PIPELINED = Loop("pipelined", AsyncScheduler, PipelinedEngine)


class Simulation:
    """A scheduler over a pool, with every step observed and checked."""

    def __init__(
        self,
        pools: PoolFactory,
        loop: Loop,
        settings: SchedulerSettings,
        folder: Path,
        hash_function: HashFunction = sha256_cbor,
    ) -> None:
        vllm_config = make_vllm_config(settings, pools.block_tokens, folder)
        vllm_config.scheduler_config.async_scheduling = loop.overlaps
        self.pool = pools.open(vllm_config)
        self.texts: dict[str, Text] = {}
        self.trace = Trace()
        self.scheduler = _make_scheduler(self.pool, loop, vllm_config)
        memory, plan = _make_memory(self.pool.config), getattr(self.pool.config, "plan", None)
        self.worker = ScriptedWorker(
            memory, self.texts, settings.drafts, settings.max_model_len, plan
        )
        self._audit_every_start()
        audit = OwnershipAudit(self.scheduler, self.worker)
        state = EngineState(self.scheduler, self.worker, [self.trace, audit])
        self.engine: Engine = loop.make_engine(state)
        self._expected: dict[str, int] = {}
        init_none_hash(hash_function)
        self._hasher = get_request_block_hasher(self.scheduler.hash_block_size, hash_function)

    @property
    def manager(self) -> Any:
        """The manager under test."""
        return self.scheduler.kv_cache_manager

    @property
    def num_steps(self) -> int:
        """Steps scheduled so far."""
        return self.engine.state.num_steps

    def submit(self, arrival: Arrival) -> Request:
        """A request comes in."""
        self.texts[arrival.request_id] = Text(arrival.prompt)
        self._expected[arrival.request_id] = arrival.max_tokens
        request = Request(
            request_id=arrival.request_id,
            prompt_token_ids=list(arrival.prompt),
            sampling_params=SamplingParams(
                max_tokens=arrival.max_tokens,
                ignore_eos=True,
                extra_args=dict(arrival.wishes) or None,
            ),
            pooling_params=None,
            arrival_time=float(len(self.texts)),
            block_hasher=self._hasher,
        )
        self.engine.state.submit(request)
        return request

    def abort(self, request_ids: Iterable[str]) -> None:
        """Clients go away."""
        for request_id in request_ids:
            self._expected.pop(request_id, None)
            self.engine.state.abort([request_id])

    def check_nothing_strays(self) -> None:
        """Where a step starts, only the tables of running requests hold blocks.

        Whatever was set aside for a request that then was not scheduled has gone back.
        """
        if self.scheduler.deferred_frees:
            return
        in_tables = num_blocks_in_tables(self.scheduler)
        held = self.pool.num_held(self.scheduler)
        if held != in_tables:
            raise Violation(f"{held} blocks are held, {in_tables} by running requests")

    def defer_frees(self) -> None:
        """Free as for an external cache that writes blocks out of order: after steps in flight."""
        self.scheduler.defer_block_free = True
        self.engine.state.observers.append(DeferralAudit(self.worker))

    def step(self) -> None:
        """One turn of the engine's loop."""
        self.engine.step()

    def turn(self, turn: Turn) -> None:
        """One turn, with what happens around it."""
        for arrival in turn.arrivals:
            self.submit(arrival)
        self.abort(turn.aborts)
        for request_id in turn.late_aborts:
            self._expected.pop(request_id, None)
        self.engine.state.late_aborts.extend(turn.late_aborts)
        if turn.resets_running:
            assert self.scheduler.reset_prefix_cache(reset_running_requests=True)
        self.step()

    def drain(self) -> None:
        """Go on until everything is finished, and see that nothing is left behind."""
        for _ in range(_MOST_TURNS_TO_DRAIN):
            if self.engine.is_idle:
                break
            self.step()
        else:
            running, waiting = self.scheduler.get_request_counts()
            raise Violation(f"{running} running and {waiting} waiting requests never finish")
        self.check_answers()
        self.check_nothing_leaked()

    def run(self, script: Iterable[Phase]) -> None:
        """Run a script; every other phase starts with an empty cache."""
        for index, phase in enumerate(script):
            for turn in phase.turns:
                self.turn(turn)
            self.drain()
            if index % 2 == 1 and not self.scheduler.reset_prefix_cache():
                raise Violation("an idle pool's cache could not be reset")

    def check_answers(self) -> None:
        """Every request that was not aborted was answered with the model's own words."""
        for request_id, num_tokens in self._expected.items():
            text = self.texts[request_id]
            start = text.num_prompt_tokens
            said = self.engine.state.said[request_id]
            assert said == text.tokens(start, start + num_tokens), f"{request_id} said {said}"
        self._expected.clear()

    def check_nothing_leaked(self) -> None:
        """An idle pool is an empty pool."""
        leaks = self.pool.leaks(self.scheduler)
        if leaks:
            raise Violation(f"{self.pool.name} leaks: {'; '.join(leaks)}")

    def _audit_every_start(self) -> None:
        start = self.manager.new_step_starts

        def start_and_audit() -> None:
            start()
            self.check_nothing_strays()

        self.manager.new_step_starts = start_and_audit


def _make_memory(config: KVCacheConfig) -> PoolMemory:
    """Memory as it may be found; where nothing is zeroed before use, vLLM starts with zeros."""
    memory = PoolMemory(layout_of(config))
    if config.needs_kv_cache_zeroing:
        memory.fill_with_garbage()
    return memory


def _make_scheduler(pool: Pool, loop: Loop, vllm_config: VllmConfig) -> Scheduler:
    """A scheduler whose ``KVCacheManager`` is the pool's, made as the plug-in has it made."""
    config = pool.config
    vllm_config.cache_config.num_gpu_blocks = config.num_blocks
    if config.has_mamba_layers:
        vllm_config.cache_config.mamba_cache_mode = "align"
    block_tokens = [group.kv_cache_spec.block_size for group in config.kv_cache_groups]
    init = meeting_scheduler(Scheduler.__init__)
    with (
        patch.object(scheduler_module, "KVCacheManager", pool.make_manager),
        patch.object(Scheduler, "__init__", init),
    ):
        return loop.scheduler_class(
            vllm_config=vllm_config,
            kv_cache_config=config,
            structured_output_manager=StructuredOutputManager(vllm_config),
            block_size=math.lcm(*block_tokens),
            hash_block_size=math.gcd(*block_tokens),
        )
