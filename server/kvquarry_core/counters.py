"""What happened to a pool, in numbers."""

from dataclasses import dataclass

from kvquarry_core.messages import Admission, Grant, Pinned, PinRefusal, Refusal
from kvquarry_core.requests import RequestRecord


@dataclass(slots=True)
class PoolCounters:
    """What happened since the pool was opened; only ever grows.

    ``query_tokens`` and ``hit_tokens`` count a request when its first blocks are spent: a lookup
    that led to nothing counts for nothing, and a hit counts iff it was returned and used. ``pins``
    counts those that were made or extended.
    """

    query_tokens: int = 0
    hit_tokens: int = 0
    admissions: int = 0
    refusals: int = 0
    commits: int = 0
    pins: int = 0
    pins_refused: int = 0

    def count_answer(self, answer: Admission | Grant | Refusal) -> None:
        """A request for blocks was answered."""
        self.refusals += isinstance(answer, Refusal)

    def count_pin(self, answer: Pinned | PinRefusal) -> None:
        """A request for a pin was answered."""
        self.pins += isinstance(answer, Pinned)
        self.pins_refused += isinstance(answer, PinRefusal)

    def count_lookup(self, record: RequestRecord) -> None:
        """Blocks of a request were spent or committed: its lookup counts, once."""
        if record.query_tokens:
            self.admissions += 1
            self.query_tokens += record.query_tokens
            self.hit_tokens += record.hit_tokens
            record.query_tokens = 0
