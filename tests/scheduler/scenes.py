"""Small situations, arranged by hand: who runs, what is cached, who waits."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

from vllm.v1.request import Request

from tests.scheduler.simulation import Simulation
from tests.scheduler.trace import StepTrace
from tests.scheduler.workload import Arrival


def words(num_tokens: int, seed: int) -> tuple[int, ...]:
    """Text that nobody else has."""
    rng = random.Random(f"{seed}/{num_tokens}")
    return tuple(rng.randint(1, 900) for _ in range(num_tokens))


@dataclass
class CallLog:
    """Which requests the scheduler looked up, and which it tried to allocate for, in order."""

    looked_up: list[str] = field(default_factory=list)
    allocated: list[str] = field(default_factory=list)


class Scene:
    """A simulation with a script of one's own."""

    def __init__(self, simulation: Simulation) -> None:
        self.simulation = simulation
        self.calls = CallLog()
        self._spy_on(simulation.manager)

    @property
    def scheduler(self) -> Any:
        """The scheduler, private parts and all."""
        return self.simulation.scheduler

    def send(
        self, request_id: str, prompt: tuple[int, ...], max_tokens: int = 4, **wishes: Any
    ) -> Request:
        """A request comes in and waits."""
        arrival = Arrival(request_id, prompt, max_tokens, tuple(wishes.items()))
        return self.simulation.submit(arrival)

    def finish(
        self, request_id: str, prompt: tuple[int, ...], max_tokens: int = 1, **wishes: Any
    ) -> None:
        """A request comes in, is answered and leaves its content in the cache."""
        self.send(request_id, prompt, max_tokens, **wishes)
        for _ in range(1000):
            if request_id not in self.scheduler.requests:
                return
            self.step()
        raise AssertionError(f"{request_id} does not finish")

    def start(self, request_id: str, prompt: tuple[int, ...], max_tokens: int = 200) -> None:
        """A request comes in and is decoding when this returns."""
        request = self.send(request_id, prompt, max_tokens)
        for _ in range(1000):
            if request.num_output_tokens:
                return
            self.step()
        raise AssertionError(f"{request_id} does not start")

    def step(self) -> StepTrace:
        """One turn of the loop, and what was scheduled in it."""
        self.calls.looked_up.clear()
        self.calls.allocated.clear()
        self.simulation.step()
        return self.simulation.trace.steps[-1]

    def abort(self, *request_ids: str) -> None:
        """Clients go away."""
        self.simulation.abort(request_ids)

    def drain(self) -> None:
        """See :meth:`Simulation.drain`."""
        self.simulation.drain()

    def _spy_on(self, manager: Any) -> None:
        look_up, allocate = manager.get_computed_blocks, manager.allocate_slots

        def get_computed_blocks(request: Request, *args: Any) -> Any:
            self.calls.looked_up.append(request.request_id)
            return look_up(request, *args)

        def allocate_slots(request: Request, *args: Any, **kwargs: Any) -> Any:
            self.calls.allocated.append(request.request_id)
            return allocate(request, *args, **kwargs)

        manager.get_computed_blocks = get_computed_blocks
        manager.allocate_slots = allocate_slots


def scheduled(step: StepTrace) -> dict[str, int]:
    """Tokens by request."""
    return dict(step.scheduled)


def hits(step: StepTrace) -> dict[str, int]:
    """Tokens found, by request that started."""
    return dict(step.hits)
