"""What is noted inside an engine's process, and how it comes out: see ``real_engine_preload``."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

#: Names the file to write to.
PROBE_ENV: Final = "LOADTEST_PROBE"


@dataclass(slots=True)
class StepProbe:
    """One scheduler step that scheduled something.

    Attributes:
        decodes_only: Every request got one token and none was new.
        schedule_s: Time in ``Scheduler.schedule``.
        update_s: Time in ``Scheduler.update_from_output``.
        num_exchanges: How often the pool's answer was waited for.
    """

    decodes_only: bool
    schedule_s: float
    update_s: float
    num_exchanges: int

    @property
    def scheduler_s(self) -> float:
        """All of the step's time in the scheduler."""
        return self.schedule_s + self.update_s


@dataclass(slots=True)
class WaveProbe:
    """One wave of requests, from the call of ``generate`` to its return.

    Attributes:
        wall_s: By the clock.
        cpu_s: Of all threads of the process.
        steps: In order.
        ttft_s: One a request, from its arrival.
        inter_token_s: One for each further token.
    """

    wall_s: float = 0.0
    cpu_s: float = 0.0
    steps: list[StepProbe] = field(default_factory=list)
    ttft_s: list[float] = field(default_factory=list)
    inter_token_s: list[float] = field(default_factory=list)


def read_probe(path: Path) -> list[WaveProbe]:
    """What an engine's process noted, one entry a wave."""
    return [_wave(json.loads(line)) for line in path.read_text().splitlines()]


def _wave(data: dict[str, Any]) -> WaveProbe:
    steps = [StepProbe(**step) for step in data.pop("steps")]
    return WaveProbe(steps=steps, **data)
