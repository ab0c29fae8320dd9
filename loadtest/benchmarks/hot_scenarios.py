"""What the hot path is made of: decode steps of running requests, and whole short lives."""

import gc
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from vllm.v1.request import Request

from loadtest.benchmarks.made_requests import make_request
from loadtest.benchmarks.scheduling import admit, advance, allocate_first, chunk_ends
from loadtest.benchmarks.sides import INFLATED_BLOCK_TOKENS, Side
from loadtest.benchmarks.stopwatch import Stopwatch

_SHORTEST_PROMPT_TOKENS = 512
_DECODED_TOKEN = 5
#: Requests that run beside those admitted.
_NUM_BYSTANDERS = 8
_DRAIN_S = 0.05


@dataclass(frozen=True, slots=True)
class Run:
    """One run of one scenario on one side.

    Attributes:
        laps: Seconds of each phase, one per operation in which there was that phase.
        num_operations: Steps, or requests.
        num_exchanges: Times the ledger waited for an answer.
        client_cpu_s: CPU seconds of the operations here.
        service_cpu_s: The same of the service; 0 where there is none.
    """

    laps: Mapping[str, Sequence[float]]
    num_operations: int
    num_exchanges: int
    client_cpu_s: float
    service_cpu_s: float


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a scenario is run in.

    Attributes:
        service_cpu_s: Reads the CPU seconds of the service.
        pause_s: Rest between two operations.
    """

    service_cpu_s: Callable[[], float]
    pause_s: float

    def rest(self) -> None:
        """Between two operations; back to back not even for other threads, as a sleep of 0 s is."""
        if self.pause_s:
            time.sleep(self.pause_s)


@dataclass(frozen=True, slots=True)
class DecodeSteps:
    """Decode steps of running requests.

    Attributes:
        num_requests: How many run.
        num_steps: How many steps.
        stagger_tokens: Their lengths are spread over so many tokens: 0 has all of them reach
            block boundaries in the same step.
    """

    num_requests: int
    num_steps: int
    stagger_tokens: int = INFLATED_BLOCK_TOKENS

    @property
    def name(self) -> str:
        """For tables."""
        return f"decode {self.num_requests}" + ("" if self.stagger_tokens else " in lock-step")

    def run(self, side: Side, around: Surroundings) -> Run:
        """Steps, each timed as a whole; those with a request at a block boundary also apart."""
        requests = [
            make_request(number, self._length(number), side.block_tokens)
            for number in range(self.num_requests)
        ]
        with _running(side, requests):
            measured = _Measured(side, around)
            for _ in range(self.num_steps):
                for request in requests:
                    request.append_output_token_ids(_DECODED_TOKEN)
                self._step(side, requests, measured.watch)
                around.rest()
            return measured.finish(self.num_steps)

    def _length(self, number: int) -> int:
        return _SHORTEST_PROMPT_TOKENS + number * self.stagger_tokens // self.num_requests

    def _step(self, side: Side, requests: Sequence[Request], watch: Stopwatch) -> None:
        manager = side.manager
        grows = any(one.num_computed_tokens % side.block_tokens == 0 for one in requests)
        watch.start()
        manager.new_step_starts()
        for request in requests:
            manager.allocate_slots(request, 1)
        manager.take_new_block_ids()
        watch.lap("step with new blocks" if grows else "step without")
        watch.since_start("step")
        watch.stop()
        for request in requests:
            request.num_computed_tokens += 1


@dataclass(frozen=True, slots=True)
class Lives:
    """Requests that are admitted, computed and freed, one after the other.

    Attributes:
        kind: ``miss`` when no two share anything, ``hit`` when all are alike.
        num_tokens: Length of the prompts.
        num_requests: How many.
    """

    kind: str
    num_tokens: int
    num_requests: int

    @property
    def name(self) -> str:
        """For tables."""
        return f"{self.kind} {self.num_tokens:,}"

    def run(self, side: Side, around: Surroundings) -> Run:
        """Lookup, admission (lookup and first chunk), prefill (all chunks), free, and all of it."""
        bystanders = [
            make_request(-1 - number, _SHORTEST_PROMPT_TOKENS, side.block_tokens)
            for number in range(_NUM_BYSTANDERS)
        ]
        with _running(side, bystanders):
            self._warm(side)
            requests = [self._request(number, side) for number in range(self.num_requests)]
            measured = _Measured(side, around)
            for request in requests:
                self._live(side, request, measured.watch)
                around.rest()
            return measured.finish(self.num_requests)

    def _request(self, number: int, side: Side) -> Request:
        seed = 1 if self.kind == "hit" else 2 + number
        return make_request(seed, self.num_tokens, side.block_tokens)

    def _warm(self, side: Side) -> None:
        """The one whose content the others hit."""
        request = make_request(1, self.num_tokens, side.block_tokens)
        side.manager.new_step_starts()
        admit(side, request)
        side.manager.free(request)
        side.manager.new_step_starts()
        side.manager.take_new_block_ids()

    def _live(self, side: Side, request: Request, watch: Stopwatch) -> None:
        manager = side.manager
        watch.start()
        manager.new_step_starts()
        blocks, hit_tokens, _ = manager.get_computed_blocks(request)
        watch.lap("lookup")
        allocate_first(side, request, hit_tokens, blocks)
        manager.take_new_block_ids()
        watch.lap("first chunk")
        watch.since_start("admission")
        for end in chunk_ends(side, request.num_computed_tokens, self.num_tokens):
            manager.new_step_starts()
            advance(side, request, end)
            manager.take_new_block_ids()
        watch.lap("later chunks")
        manager.free(request)
        manager.take_events()
        watch.lap("free")
        watch.since_start("life")
        watch.stop()


@dataclass(slots=True)
class _Measured:
    """Counters as they stood when a run's first operation began."""

    side: Side
    around: Surroundings
    watch: Stopwatch = field(default_factory=Stopwatch)
    first_exchanges: int = 0
    first_service_cpu_s: float = 0.0

    def __post_init__(self) -> None:
        self._let_service_finish()
        self.first_exchanges = self.side.num_exchanges()
        self.first_service_cpu_s = self.around.service_cpu_s()

    def finish(self, num_operations: int) -> Run:
        client_cpu_s = self.watch.cpu_s()
        num_exchanges = self.side.num_exchanges() - self.first_exchanges
        self._let_service_finish()
        laps = dict(self.watch.laps)
        if "later chunks" in laps:
            chunks = zip(laps.pop("first chunk"), laps.pop("later chunks"), strict=True)
            laps["prefill"] = [first + later for first, later in chunks]
        service_cpu_s = self.around.service_cpu_s() - self.first_service_cpu_s
        return Run(
            laps,
            num_operations,
            num_exchanges,
            client_cpu_s,
            service_cpu_s if self.side.is_remote else 0.0,
        )

    def _let_service_finish(self) -> None:
        """It may still work on what nobody waits for."""
        if self.side.is_remote:
            time.sleep(_DRAIN_S)


@contextmanager
def _running(side: Side, requests: Sequence[Request]) -> Iterator[None]:
    """Requests that hold blocks meanwhile; an empty pool without content afterwards.

    What lives long is kept out of the garbage collector's sight, as in vLLM's engine.
    """
    manager = side.manager
    manager.new_step_starts()
    for request in requests:
        admit(side, request)
    manager.take_new_block_ids()
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        for request in requests:
            manager.free(request)
        manager.new_step_starts()
        if not manager.reset_prefix_cache():
            raise AssertionError(f"{side.name}: blocks are held after all requests were freed")
