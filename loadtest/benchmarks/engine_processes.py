"""Simulated engines, each in a process of its own, started once and used for many runs."""

import multiprocessing
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess

from loadtest.benchmarks.recording import Recording
from loadtest.benchmarks.replay import Pace, Tally, replay

_SLACK_S = 60.0
_STOP_TIMEOUT_S = 5.0


@dataclass(frozen=True, slots=True)
class Order:
    """What one engine is to do."""

    engine: str
    recording: Recording
    pace: Pace
    run_s: float


@dataclass(frozen=True, slots=True)
class Burn:
    """Take a core and leave the service alone: what a neighbour costs that is no engine."""

    run_s: float
    engine: str = "burner"


@dataclass(frozen=True, slots=True)
class Engines:
    """Processes that wait for orders."""

    pipes: Sequence["Connection[Order | Burn, Tally]"]

    def run(self, orders: Sequence[Order | Burn]) -> list[Tally]:
        """Give the first engines an order each and wait for all of them."""
        pipes = self.pipes[: len(orders)]
        for pipe, order in zip(pipes, orders, strict=True):
            pipe.send(order)
        return [_receive(pipe, order) for pipe, order in zip(pipes, orders, strict=True)]


@contextmanager
def engine_processes(target: str, num_engines: int, *, niceness: int = 0) -> Iterator[Engines]:
    """Start engines that know a service; stop each by its own handle at the end."""
    context = multiprocessing.get_context("spawn")
    pipes, processes = [], []
    try:
        for _ in range(num_engines):
            ours, theirs = context.Pipe()
            process = context.Process(target=_work, args=(target, theirs, niceness), daemon=True)
            process.start()
            theirs.close()
            pipes.append(ours)
            processes.append(process)
        yield Engines(pipes)
    finally:
        for pipe in pipes:
            pipe.close()
        for process in processes:
            _stop(process)


def _receive(pipe: "Connection[Order | Burn, Tally]", order: Order | Burn) -> Tally:
    if not pipe.poll(order.run_s + _SLACK_S):
        raise TimeoutError(f"{order.engine} did not finish within {order.run_s + _SLACK_S:.0f} s")
    return pipe.recv()


def _stop(process: SpawnProcess) -> None:
    process.join(_STOP_TIMEOUT_S)
    if process.is_alive():
        process.kill()
        process.join()


def _work(target: str, pipe: "Connection[Tally, Order | Burn]", niceness: int) -> None:
    """What an engine's process does until its pipe is closed."""
    os.nice(niceness)
    while True:
        try:
            order = pipe.recv()
        except EOFError:
            return
        pipe.send(_tally(target, order))


def _tally(target: str, order: Order | Burn) -> Tally:
    if isinstance(order, Order):
        return replay(target, order.engine, order.recording, order.pace, order.run_s)
    end = time.perf_counter() + order.run_s
    while time.perf_counter() < end:
        pass
    return Tally(elapsed_s=order.run_s)
