"""Where a service is measured, and for how long."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from loadtest.benchmarks.engine_processes import Engines, engine_processes
from loadtest.benchmarks.service_process import ServiceProcess

_BACKGROUND_NICENESS = 19


@dataclass(frozen=True, slots=True)
class Bench:
    """A service and processes that use it.

    Attributes:
        service: What is measured.
        engines: Processes that are scheduled like the service.
        background: One that gets what processor time all others leave, if it says so.
        num_rounds: Rounds in which every case is run once.
        run_s: Seconds of one run.
    """

    service: ServiceProcess
    engines: Engines
    background: Engines
    num_rounds: int
    run_s: float


@contextmanager
def bench_of(
    service: ServiceProcess, num_engines: int, *, num_rounds: int, run_s: float
) -> Iterator[Bench]:
    """Start the processes, and stop them at the end."""
    with (
        engine_processes(service.target, num_engines) as engines,
        engine_processes(service.target, 1, niceness=_BACKGROUND_NICENESS) as background,
    ):
        yield Bench(service, engines, background, num_rounds, run_s)
