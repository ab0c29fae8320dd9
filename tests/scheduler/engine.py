"""vLLM's engine loop around a scripted worker: one step at a time, or two in flight.

The loops are those of ``EngineCore.step`` and ``EngineCore.step_with_batch_queue``. A step is
executed when it is issued, and its output is given to the scheduler when the loop waits for it:
the device runs steps in order, so that is all the overlap block ids can ever see.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Protocol

from vllm.v1.core.sched.output import SchedulerOutput
from vllm.v1.core.sched.scheduler import Scheduler
from vllm.v1.outputs import ModelRunnerOutput
from vllm.v1.request import Request, RequestStatus

from tests.scheduler.worker import ScriptedWorker, StepRecord

#: Steps that the loop of an engine with asynchronous scheduling keeps in flight.
PIPELINE_DEPTH = 2


class StepObserver(Protocol):
    """Sees every step after it was executed and before the scheduler hears of it."""

    def step_ran(self, output: SchedulerOutput, record: StepRecord) -> None: ...


@dataclass
class EngineState:
    """What both loops share.

    Attributes:
        said: What each request was answered, by id.
        num_steps: Calls of ``schedule``.
        late_aborts: Requests to abort while the model runs, before its output is processed.
    """

    scheduler: Scheduler
    worker: ScriptedWorker
    observers: list[StepObserver]
    said: dict[str, list[int]] = field(default_factory=dict)
    num_steps: int = 0
    late_aborts: list[str] = field(default_factory=list)

    def submit(self, request: Request) -> None:
        """Add a request."""
        self.said[request.request_id] = []
        self.scheduler.add_request(request)

    def abort(self, request_ids: Iterable[str]) -> None:
        """The clients of these requests went away."""
        self.scheduler.finish_requests(list(request_ids), RequestStatus.FINISHED_ABORTED)

    def issue(self) -> tuple[SchedulerOutput, ModelRunnerOutput, StepRecord]:
        """Schedule one step and run it."""
        self.num_steps += 1
        output = self.scheduler.schedule()
        result, record = self.worker.execute(output)
        for observer in self.observers:
            observer.step_ran(output, record)
        return output, result, record

    def process(self, output: SchedulerOutput, result: ModelRunnerOutput) -> None:
        """Let the scheduler hear of a step's result."""
        if self.late_aborts:
            self.abort(self.late_aborts)
            self.late_aborts.clear()
        for outputs in self.scheduler.update_from_output(output, result).values():
            for item in outputs.outputs:
                self.said[item.request_id] += item.new_token_ids
        self.worker.deliver()


class Engine(Protocol):
    """One engine loop."""

    state: EngineState

    def step(self) -> None:
        """One turn of the loop."""
        ...

    @property
    def is_idle(self) -> bool:
        """Whether nothing is left to do or to wait for."""
        ...


MakeEngine = Callable[[EngineState], Engine]


class SteppedEngine:
    """``EngineCore.step``: each step's output is processed before the next is scheduled."""

    def __init__(self, state: EngineState) -> None:
        self.state = state

    @property
    def is_idle(self) -> bool:
        """See :class:`Engine`."""
        return not self.state.scheduler.has_requests()

    def step(self) -> None:
        """See :class:`Engine`."""
        if self.is_idle:
            return
        output, result, record = self.state.issue()
        self.state.process(output, result)
        if record.chunks and self.state.scheduler.num_spec_tokens:
            self.state.scheduler.update_draft_token_ids(self.state.worker.take_drafts(record))


class PipelinedEngine:
    """``EngineCore.step_with_batch_queue`` with asynchronous scheduling: two steps in flight."""

    def __init__(self, state: EngineState) -> None:
        self.state = state
        self._in_flight: deque[tuple[SchedulerOutput, ModelRunnerOutput]] = deque()

    @property
    def is_idle(self) -> bool:
        """See :class:`Engine`."""
        return not self._in_flight and not self.state.scheduler.has_requests()

    def step(self) -> None:
        """See :class:`Engine`."""
        scheduler = self.state.scheduler
        if scheduler.has_requests():
            output, result, _ = self.state.issue()
            self._in_flight.append((output, result))
            may_go_on = output.total_num_scheduled_tokens > 0 or scheduler.has_requests()
            if len(self._in_flight) < PIPELINE_DEPTH and may_go_on:
                return
        if self._in_flight:
            self.state.process(*self._in_flight.popleft())
