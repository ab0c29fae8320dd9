"""A continuous-batching engine on a simulated clock.

A step has a budget of tokens. Running requests come first: one token for each that decodes, then
chunks of prompts, oldest request first; where blocks are short the newest request is preempted
until they are not. What is left of the budget admits waiting requests in order, unless the step has
preempted. A step takes a fixed time and a time per token; an idle engine sleeps until the next
arrival.
"""

from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from kvquarry_core.checkpoints import Checkpoints
from kvquarry_core.ids import Handle
from kvquarry_core.messages import Refusal, RefusalCause
from kvquarry_tools.simulation.replay.arrivals import Arrival
from kvquarry_tools.simulation.replay.life import Life, plot_of
from kvquarry_tools.simulation.replay.occupancy import Occupancy, measure
from kvquarry_tools.simulation.replay.pools import ReplayPool
from kvquarry_tools.simulation.replay.tally import Tally


@dataclass(frozen=True, slots=True)
class EngineLimits:
    """An engine's settings and speed.

    Attributes:
        max_num_batched_tokens: Tokens a step computes at most.
        max_num_seqs: Requests that run at the same time at most.
        step_ms: What a step takes, whatever it computes.
        token_us: What each token adds to that.
        sample_every_steps: How often the pool is looked at.
    """

    max_num_batched_tokens: int = 8_192
    max_num_seqs: int = 256
    step_ms: float = 8.0
    token_us: float = 20.0
    sample_every_steps: int = 100


@dataclass(slots=True)
class _Running:
    """A request that was admitted.

    Attributes:
        arrival: What it is.
        life: Its blocks.
        first_output_step: The step that computed the end of its prompt, once it did.
    """

    arrival: Arrival
    life: Life
    first_output_step: int | None = None

    def num_tokens(self, step: int) -> int:
        """Tokens computed at the end of ``step``."""
        if self.first_output_step is None:
            return self.life.num_tokens
        return self.arrival.num_tokens + step - self.first_output_step

    @property
    def last_step(self) -> int:
        """The step that generates the last token; only for requests that decode."""
        assert self.first_output_step is not None, "a prompt is still being computed"
        left = self.arrival.request.num_output_tokens - self.arrival.num_generated
        return self.first_output_step + max(left, 1) - 1


class ReplayEngine:
    """Runs the requests of a trace on a pool, a step at a time."""

    def __init__(
        self,
        pool: ReplayPool,
        checkpoints: Checkpoints,
        limits: EngineLimits,
        arrivals: Iterator[Arrival],
    ) -> None:
        self.tally = Tally()
        self.now_ms = 0.0
        self._pool = pool
        self._checkpoints = checkpoints
        self._limits = limits
        self._arrivals = arrivals
        self._next = next(arrivals, None)
        self._waiting: deque[Arrival] = deque()
        self._is_head_refused = False
        # Oldest first: the newest is the last.
        self._running: dict[Handle, _Running] = {}
        self._computing: dict[Handle, _Running] = {}
        # Requests that decode over a block boundary or end, by the step in which they do.
        self._due: defaultdict[int, list[Handle]] = defaultdict(list)
        self._next_handle = 0
        self._step = 0
        self._unit = pool.plan.hash_tokens

    def run(self, on_done: Callable[[int], None]) -> Tally:
        """Run until every request is done; ``on_done`` hears how many are."""
        while self._next is not None or self._waiting or self._running:
            self._take_arrivals()
            self._run_step()
            on_done(self.tally.num_finished + self.tally.num_refused)
        return self.tally

    def _take_arrivals(self) -> None:
        if self._next is not None and not self._waiting and not self._running:
            self.now_ms = max(self.now_ms, self._next.request.arrival_ms)
        while self._next is not None and self._next.request.arrival_ms <= self.now_ms:
            self._waiting.append(self._next)
            self._next = next(self._arrivals, None)

    def _run_step(self) -> None:
        self._pool.begin_step()
        num_preempted = self.tally.num_preempted
        self._decode()
        budget = self._limits.max_num_batched_tokens
        budget -= len(self._running) - len(self._computing)
        budget = self._compute_prompts(budget)
        if self.tally.num_preempted == num_preempted:
            budget = self._admit_waiting(budget)
        if self._step % self._limits.sample_every_steps == 0:
            self.tally.samples.append(self._measure())
        num_tokens = self._limits.max_num_batched_tokens - budget
        self.now_ms += self._limits.step_ms + num_tokens * self._limits.token_us / 1e3
        self._step += 1
        self.tally.num_steps += 1

    # Requests that run.

    def _decode(self) -> None:
        due = sorted(self._due.pop(self._step, ()))
        for handle in due:
            running = self._running.get(handle)
            if running is not None and running.last_step < self._step:
                self._finish(handle, running)
        for handle in due:
            running = self._running.get(handle)
            if running is not None and self._advance(handle, running.num_tokens(self._step)):
                self._schedule(handle, running)

    def _finish(self, handle: Handle, running: _Running) -> None:
        is_full = running.life.advance(running.num_tokens(self._step - 1))
        assert is_full, f"request {handle} ended in the middle of a block and needed another"
        self._remove(handle)
        self.tally.num_finished += 1

    def _compute_prompts(self, budget: int) -> int:
        """Go on with prompts; returns what is left of the budget."""
        for handle in list(self._computing):
            if handle in self._running and budget > 0:
                budget -= self._compute_chunk(handle, budget)
        return max(budget, 0)

    def _compute_chunk(self, handle: Handle, budget: int) -> int:
        """Compute a chunk of a prompt; returns its tokens, 0 if the request was preempted."""
        running = self._running[handle]
        start, end = running.life.num_tokens, running.arrival.num_tokens
        stop = min(end, start + budget)
        if not self._advance(handle, stop):
            return 0
        if stop == end:
            running.first_output_step = self._step
            del self._computing[handle]
            self._schedule(handle, running)
        return stop - start

    def _advance(self, handle: Handle, num_tokens: int) -> bool:
        """Have blocks for so many tokens, or preempt until there are; False if it is the last."""
        life = self._running[handle].life
        while not life.advance(num_tokens):
            self._note_shortage()
            newest = next(reversed(self._running))
            if len(self._running) == 1:
                self._start_over(handle)
            else:
                self._preempt(newest)
            if newest == handle:
                return False
        return True

    def _start_over(self, handle: Handle) -> None:
        """Preempt the only one that runs: in an empty pool it may get further, or it never fits."""
        running = self._running[handle]
        num_tokens = running.life.num_tokens
        if num_tokens > running.arrival.stuck_tokens:
            self._preempt(handle)
            self._waiting[0] = replace(self._waiting[0], stuck_tokens=num_tokens)
            return
        self._remove(handle)
        self.tally.num_refused += 1

    def _schedule(self, handle: Handle, running: _Running) -> None:
        """Note when a request that decodes is to be looked at: at its next boundary or its end."""
        slots_left = -running.num_tokens(self._step) % self._unit
        self._due[min(self._step + slots_left, running.last_step) + 1].append(handle)

    def _preempt(self, handle: Handle) -> None:
        running = self._remove(handle)
        arrival, first = running.arrival, running.first_output_step
        if first is None:
            left = replace(arrival, num_computed=running.life.num_tokens)
        else:
            num_new = self._step - first
            left = replace(
                arrival,
                num_generated=arrival.num_generated + num_new,
                num_computed=arrival.num_tokens + num_new - 1,
            )
        self._waiting.appendleft(left)
        self.tally.num_preempted += 1

    def _remove(self, handle: Handle) -> _Running:
        self._pool.free(handle)
        self._is_head_refused = False
        self._computing.pop(handle, None)
        return self._running.pop(handle)

    # Requests that wait.

    def _admit_waiting(self, budget: int) -> int:
        """Admit in order while there is room; returns what is left of the budget."""
        num_preempted = self.tally.num_preempted
        while (
            budget > 0
            and self._waiting
            and len(self._running) < self._limits.max_num_seqs
            and not self._is_head_refused
            and self.tally.num_preempted == num_preempted
        ):
            handle = self._admit(self._waiting[0], budget)
            if handle is None:
                break
            budget -= self._compute_chunk(handle, budget)
        return budget

    def _admit(self, arrival: Arrival, budget: int) -> Handle | None:
        handle = Handle(self._next_handle)
        kept = self._pool.keep_free(len(self._running), len(self._computing) + 1)
        ask = arrival.ask(
            handle,
            budget,
            in_flight_tokens=self._limits.max_num_batched_tokens,
            keep_free_blocks=kept,
        )
        answer = self._pool.admit(ask)
        if isinstance(answer, Refusal):
            self._note_refusal(answer)
            return None
        self._next_handle += 1
        self._waiting.popleft()
        self.tally.note_admission(arrival, answer)
        plot = plot_of(arrival, handle, self._checkpoints, answer)
        running = _Running(arrival, Life(self._pool, plot, answer))
        self._running[handle] = self._computing[handle] = running
        return handle

    def _note_refusal(self, refusal: Refusal) -> None:
        if refusal.cause is RefusalCause.SAME_STEP:
            return
        if refusal.cause is RefusalCause.NEVER_FITS or not self._running:
            self._waiting.popleft()
            self.tally.num_refused += 1
            return
        self._is_head_refused = True
        self._note_shortage()

    # Figures.

    def _note_shortage(self) -> None:
        self.tally.num_shortages += 1
        if self.tally.first_shortage is None:
            self.tally.first_shortage = self._measure()

    def _measure(self) -> Occupancy:
        num_tokens = (running.num_tokens(self._step) for running in self._running.values())
        num_empty = sum(-tokens % self._unit for tokens in num_tokens)
        return measure(self._pool.parts, num_empty, self.now_ms / 1e3)
