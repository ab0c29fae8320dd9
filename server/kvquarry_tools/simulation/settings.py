"""What is simulated."""

from dataclasses import dataclass, field
from enum import Enum

from kvquarry_core.policies import PolicyNames
from kvquarry_tools.models import ServedModel


class Baseline(Enum):
    """What to compare with."""

    #: Stock vLLM: one inflated block size; states and attention share one pool.
    UNIFORM = "uniform"
    #: Two pools that never lend to each other: 70 % for attention, 30 % for states.
    STATIC = "static"
    #: Memory for everything that the retention keeps.
    INFINITE = "infinite"
    #: An order of eviction that knows the future.
    BELADY = "belady"


#: What a pool under churn can be compared with, see :mod:`kvquarry_tools.simulation.churn`.
CHURN_BASELINES = ("uniform", "static", "static-even", "random", "oracle-blocks", "oracle")


class Replay(Enum):
    """How requests run."""

    #: Concurrently, with decoding, preemption and a clock.
    ENGINE = "engine"
    #: One after another, prompts alone.
    PROMPTS = "prompts"


@dataclass(frozen=True, slots=True)
class SimulationSettings:
    """A simulation.

    Attributes:
        served: The model and its block size.
        memory_bytes: The pool.
        replay: How requests run.
        policies: Where new blocks go, what is evicted and what may be moved, by name.
        retention: Which checkpoints stay: see :mod:`kvquarry_core.retention`.
        baseline: What to run in the place of kvquarry's pool, if anything.
    """

    served: ServedModel
    memory_bytes: int
    replay: Replay = Replay.ENGINE
    policies: PolicyNames = field(default_factory=PolicyNames)
    retention: str = "boundaries"
    baseline: Baseline | None = None
