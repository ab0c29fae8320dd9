"""What a replay counts."""

from dataclasses import dataclass, field

from kvquarry_core.messages import Admission
from kvquarry_core.work import Work
from kvquarry_tools.simulation.replay.arrivals import Arrival
from kvquarry_tools.simulation.replay.occupancy import Occupancy


@dataclass(slots=True)
class Tally:
    """Only ever grows.

    Attributes:
        num_requests: Requests that were admitted.
        prompt_tokens: Their prompts.
        hit_tokens: Prompt tokens found at the first admission: prefill saved.
        lengths: Of each request, the tokens of its prompt and those found.
        recomputed_tokens: Tokens computed a second time after a preemption.
        num_finished: Requests that ran to their end.
        num_preempted: Preemptions.
        num_refused: Requests that the whole pool cannot hold.
        num_steps: Steps of the engine.
        num_shortages: Times that blocks were wanted and could not be had.
        first_shortage: The pool when that happened for the first time.
        samples: The pool over time.
    """

    num_requests: int = 0
    prompt_tokens: int = 0
    hit_tokens: int = 0
    lengths: list[tuple[int, int]] = field(default_factory=list)
    recomputed_tokens: int = 0
    num_finished: int = 0
    num_preempted: int = 0
    num_refused: int = 0
    num_steps: int = 0
    num_shortages: int = 0
    first_shortage: Occupancy | None = None
    samples: list[Occupancy] = field(default_factory=list)

    def note_admission(self, arrival: Arrival, admission: Admission) -> None:
        """Count a request at its first admission, and what it lost at each later one."""
        if arrival.num_computed:
            self.recomputed_tokens += max(arrival.num_computed - admission.hit_tokens, 0)
            return
        self.num_requests += 1
        self.prompt_tokens += arrival.request.num_prompt_tokens
        self.hit_tokens += admission.hit_tokens
        self.lengths.append((arrival.request.num_prompt_tokens, admission.hit_tokens))

    def work_hit_rate(self, work: Work) -> float:
        """The work of all prompts that need not be done, of all."""
        saved = sum(work.of_prefix(hit_tokens) for _, hit_tokens in self.lengths)
        return saved / (sum(work.of_prefix(length) for length, _ in self.lengths) or 1.0)
