"""A request of the trace on its way through the engine."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from kvquarry_core.ids import Handle
from kvquarry_core.messages import AdmitRequest
from kvquarry_tools.simulation.names import Names
from kvquarry_tools.simulation.traces import TraceRequest


@dataclass(frozen=True, slots=True)
class Arrival:
    """A request that waits.

    Attributes:
        request: The trace's.
        names: Its block hashes.
        num_generated: Output tokens of earlier lives.
        num_computed: Tokens that the last life had computed.
        stuck_tokens: Tokens that a life had when nobody else ran and it could not go on; 0 for
            never.
    """

    request: TraceRequest
    names: Names
    num_generated: int = 0
    num_computed: int = 0
    stuck_tokens: int = 0

    @property
    def num_tokens(self) -> int:
        """Tokens to be computed before the next output token."""
        return self.request.num_prompt_tokens + self.num_generated

    def ask(
        self,
        handle: Handle,
        max_grant_tokens: int,
        *,
        in_flight_tokens: int = 0,
        keep_free_blocks: Sequence[int] = (),
    ) -> AdmitRequest:
        """What the pool is asked: all of it has to fit, a first chunk is granted.

        Args:
            handle: The pool's number for this life.
            max_grant_tokens: The first chunk at most.
            in_flight_tokens: Any later chunk at most; 0 for the same.
            keep_free_blocks: What is left to those that run, by class.
        """
        num_tokens = self.num_tokens
        return AdmitRequest(
            handle=handle,
            hashes=self.names.up_to(num_tokens - 1),
            num_tokens=num_tokens,
            max_hit_tokens=num_tokens - 1,
            max_grant_tokens=max_grant_tokens,
            must_fit_tokens=num_tokens,
            in_flight_tokens=in_flight_tokens,
            keep_free_blocks=keep_free_blocks,
        )


def arrivals(requests: Sequence[TraceRequest], hash_tokens: int) -> Iterator[Arrival]:
    """A trace's requests, with hashes for so many tokens each."""
    for serial, request in enumerate(requests):
        yield Arrival(request, Names(request, serial, hash_tokens))
