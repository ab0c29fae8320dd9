"""An engine whose queue is never empty.

Every step each running request generates one token; one that reaches a block boundary takes a
block, and where there is none the newest request is preempted until there is. Then requests are
admitted, in order, as long as the whole of them fits. Prompts are computed in the step that admits
them. A step that preempted admits nobody, and a refused request is tried again when something was
freed. A request that does not even fit alone is refused for good.
"""

from collections import defaultdict, deque
from collections.abc import Iterator
from dataclasses import dataclass

from kvquarry_core.ids import Handle
from kvquarry_tools.simulation.churn.pools import ChurnPool
from kvquarry_tools.simulation.churn.requests import Demand

#: A queue without end has a next request always, so that nobody fits is never known for sure.
MOST_REFUSED_IN_A_ROW = 1_000


class NothingFits(Exception):
    """The pool is empty and so many requests in a row did not fit."""


@dataclass(frozen=True, slots=True)
class Occupancy:
    """The pool at the end of a step.

    Attributes:
        needed_bytes: Bytes of content that the running requests need, to the token.
        num_running: Running requests.
    """

    needed_bytes: int
    num_running: int


@dataclass(slots=True)
class Totals:
    """What happened since the start; only ever grows.

    Attributes:
        finished: Requests that ran to their end.
        preempted: Preemptions.
        refused: Requests that did not fit though nobody ran.
        first_shortage_bytes: What was needed when something did not fit for the first time.
    """

    finished: int = 0
    preempted: int = 0
    refused: int = 0
    first_shortage_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class _Running:
    demand: Demand
    since_step: int

    def num_tokens(self, step: int) -> int:
        """Tokens that have a slot after ``step``."""
        return self.demand.num_tokens + step - self.since_step

    @property
    def last_step(self) -> int:
        """The step in which the last token is generated; its own slot is never written."""
        return self.since_step + self.demand.num_output_tokens - 1


class ChurnEngine:
    """Runs requests on a pool, a step at a time."""

    def __init__(self, pool: ChurnPool, requests: Iterator[Demand]) -> None:
        self.totals = Totals()
        self._pool = pool
        self._requests = requests
        self._preempted: deque[Demand] = deque()
        self._head: Demand | None = None
        self._is_head_refused = False
        self._num_refused_in_a_row = 0
        # Oldest first: the newest is the last.
        self._running: dict[Handle, _Running] = {}
        # Requests that finish or take a block, by the step in which they do.
        self._due: defaultdict[int, list[Handle]] = defaultdict(list)
        self._next_handle = 0
        self._step = 0
        # The sum of all running requests' tokens before step 0, so to speak: a step adds one each.
        self._base_tokens = 0

    def step(self) -> Occupancy:
        """Run one step.

        Raises:
            NothingFits: The pool is too small for these requests.
        """
        self._pool.begin_step()
        due = [handle for handle in self._due.pop(self._step, ()) if handle in self._running]
        for handle in due:
            if self._running[handle].last_step < self._step:
                self._finish(handle)
        before = self.totals.preempted
        for handle in sorted(due):
            if handle in self._running:
                self._grow(handle)
        if self.totals.preempted == before:
            self._admit_waiting()
        occupancy = Occupancy(self._needed_bytes(), len(self._running))
        self._step += 1
        return occupancy

    def _finish(self, handle: Handle) -> None:
        self._remove(handle)
        self.totals.finished += 1

    def _grow(self, handle: Handle) -> None:
        while not self._pool.grow(handle):
            self._note_shortage()
            newest = next(reversed(self._running))
            self._preempt(newest)
            if newest == handle:
                return
        self._schedule(handle)

    def _preempt(self, handle: Handle) -> None:
        running = self._remove(handle)
        self._preempted.appendleft(running.demand.after(self._step - running.since_step))
        self.totals.preempted += 1

    def _remove(self, handle: Handle) -> _Running:
        self._pool.free(handle)
        self._is_head_refused = False
        running = self._running.pop(handle)
        self._base_tokens -= running.demand.num_tokens - running.since_step
        return running

    def _admit_waiting(self) -> None:
        while not self._is_head_refused:
            if self._preempted:
                if not self._admit(self._preempted[0]):
                    return
                self._preempted.popleft()
            else:
                self._head = self._head or next(self._requests)
                if not self._admit(self._head):
                    return
                self._head = None

    def _admit(self, demand: Demand) -> bool:
        """Admit or refuse a request for good; False where it has to wait."""
        handle = Handle(self._next_handle)
        if not self._pool.admit(handle, demand.num_tokens):
            self._note_shortage()
            self._is_head_refused = bool(self._running)
            if self._running:
                return False
            # Alone in the pool and still refused: it never fits, and nobody would come after it.
            self._refuse()
            return True
        self._num_refused_in_a_row = 0
        self._next_handle += 1
        self._running[handle] = _Running(demand, self._step)
        self._base_tokens += demand.num_tokens - self._step
        self._schedule(handle)
        return True

    def _refuse(self) -> None:
        self.totals.refused += 1
        self._num_refused_in_a_row += 1
        if self._num_refused_in_a_row == MOST_REFUSED_IN_A_ROW:
            raise NothingFits

    def _schedule(self, handle: Handle) -> None:
        """Note when the request has to be looked at again: at its next boundary or its end."""
        running = self._running[handle]
        block_tokens = self._pool.block_tokens
        slots_left = -running.num_tokens(self._step) % block_tokens
        self._due[min(self._step + slots_left, running.last_step) + 1].append(handle)

    def _note_shortage(self) -> None:
        if self.totals.first_shortage_bytes is None:
            self.totals.first_shortage_bytes = self._needed_bytes()

    def _needed_bytes(self) -> int:
        num_tokens = self._base_tokens + self._step * len(self._running)
        need = self._pool.need
        return num_tokens * need.bytes_per_token + len(self._running) * need.bytes_per_request
