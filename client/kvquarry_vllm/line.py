"""Who is next in line: requests that the scheduler will probably look up in the same step.

It looks waiting requests up one by one, and each time waits for an exchange. So the first of a step
has those behind it asked for, too, as far as the step's tokens and places go. What that comes to is
a guess, which knows nothing of adapters, encoders or deferred prefills: those who are asked for in
vain wait for another step with what they got, and then give it back.
"""

from collections.abc import Iterator
from itertools import islice
from typing import Any, Protocol

from vllm.v1.request import Request, RequestStatus

_READY = (RequestStatus.WAITING, RequestStatus.PREEMPTED)


class Line(Protocol):
    """Waiting requests, in their order."""

    def behind(self, request: Request) -> Iterator[Request]:
        """Those who will probably be looked up after the request at the head of the line."""
        ...


class WaitingLine:
    """A scheduler's waiting requests, as it will come to them."""

    def __init__(self, scheduler: Any) -> None:
        self._scheduler = scheduler
        # Fails at start, not with the first request, where vLLM's names have changed.
        self._max_running: int = scheduler.max_num_running_reqs
        self._max_tokens: int = scheduler.max_num_scheduled_tokens
        self._longest_chunk: int = scheduler.scheduler_config.long_prefill_token_threshold or (
            self._max_tokens
        )
        # Where there are states, chunks of prompts end at blocks' ends.
        is_cut: bool = scheduler.need_mamba_block_aligned_split
        self._block_tokens: int = scheduler.block_size if is_cut else 1

    def behind(self, request: Request) -> Iterator[Request]:
        """See :meth:`Line.behind`."""
        waiting = self._scheduler.waiting
        if len(waiting) < 2 or waiting.peek_request() is not request:
            return
        running = self._scheduler.running
        num_places = self._max_running - len(running) - 1
        tokens_left = self._max_tokens - sum(map(self._chunk, running))
        last = request
        for one in islice(waiting, 1, 1 + max(num_places, 0)):
            tokens_taken = self._of_chunk(last, tokens_left)
            tokens_left -= tokens_taken
            if not tokens_taken or not tokens_left:
                return
            if one.status in _READY and not one.num_computed_tokens:
                yield one
                last = one

    def _of_chunk(self, request: Request, tokens_left: int) -> int:
        """As many of a request's next tokens as are computed in a step that has so many left."""
        chunk = self._chunk(request)
        if chunk <= tokens_left:
            return chunk
        return max(tokens_left // self._block_tokens * self._block_tokens, 0)

    def _chunk(self, request: Request) -> int:
        """A request's next tokens, where there are enough; nothing is known to be cached."""
        start = request.num_computed_tokens
        end = request.num_tokens_with_spec + request.num_output_placeholders
        last_boundary = end // self._block_tokens * self._block_tokens
        chunk = last_boundary - start if last_boundary > start else end - start
        return int(min(chunk, self._longest_chunk))


class NoLine:
    """Where no scheduler is known: nobody is asked for before it is his turn."""

    def behind(self, request: Request) -> Iterator[Request]:
        """Nobody."""
        return iter(())
