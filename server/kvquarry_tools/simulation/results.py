"""What a simulation finds."""

from dataclasses import dataclass

from kvquarry_tools.simulation.replay.occupancy import Occupancy


@dataclass(frozen=True, slots=True)
class Figures:
    """Prefix cache, fragmentation and preemption.

    Attributes:
        num_requests: Requests that were admitted.
        num_refused: Requests that not even an empty pool holds.
        prompt_tokens: Tokens of all prompts.
        hit_tokens: Those found at first admission: prefill tokens saved.
        work_hit_rate: The work that these would have taken, of that of all prompts; None: nobody
            knows what the model computes.
        recomputed_tokens: Tokens computed again after a preemption.
        moved_bytes: What relocation copied.
        num_preempted: Preemptions.
        num_steps: Steps of the engine.
        evictions: Blocks evicted, by what their class holds.
        interval_tokens: How far apart a request's checkpoints are, if at even distances.
        checkpoints: Checkpoints kept at the end: a state in every group counts as one.
        first_shortage: The pool when blocks were wanted and could not be had for the first time.
        samples: The pool over time; none of memory without end.
    """

    num_requests: int
    num_refused: int
    prompt_tokens: int
    hit_tokens: int
    work_hit_rate: float | None = None
    recomputed_tokens: int = 0
    moved_bytes: int = 0
    num_preempted: int = 0
    num_steps: int = 0
    evictions: dict[str, int] | None = None
    interval_tokens: int | None = None
    checkpoints: int | None = None
    first_shortage: Occupancy | None = None
    samples: tuple[Occupancy, ...] = ()

    @property
    def token_hit_rate(self) -> float:
        """Prompt tokens found, of all."""
        return self.hit_tokens / max(self.prompt_tokens, 1)
