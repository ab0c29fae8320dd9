"""Who is known to the shadow, by the part of life each is in.

::

    lookup           -> pending    touched and granted, nothing spent
    first allocation -> live       spends; *in its prompt* while chunks of that are ahead
    detached                       over, but a step in flight may still write its blocks
"""

import itertools
from collections.abc import Iterator

from kvquarry_client.records import ShadowRequest
from kvquarry_client.renames import Renames
from kvquarry_client.scheduling import Allocation, Waiting
from kvquarry_core.ids import Handle


class Roster:
    """All requests that hold blocks."""

    def __init__(self) -> None:
        #: In the order in which they were started.
        self.live: dict[str, ShadowRequest] = {}
        self.pending: dict[str, ShadowRequest] = {}
        #: Those pending that were looked up in an earlier step.
        self.kept: set[str] = set()
        self.detached: dict[Handle, ShadowRequest] = {}
        # How long the prompt is of those that have chunks of it ahead.
        self._prompt_tokens: dict[Handle, int] = {}

    def __bool__(self) -> bool:
        """Whether anybody holds blocks."""
        return bool(self.live or self.pending or self.detached)

    def __iter__(self) -> Iterator[ShadowRequest]:
        """Everybody."""
        of_all = (self.live.values(), self.pending.values(), self.detached.values())
        return itertools.chain.from_iterable(of_all)

    @property
    def num_prompts(self) -> int:
        """Live requests that have chunks of their prompt ahead."""
        return len(self._prompt_tokens)

    def decoding(self) -> list[ShadowRequest]:
        """Live requests that go on token by token."""
        in_prompt = self._prompt_tokens
        return [one for one in self.live.values() if one.handle not in in_prompt]

    def start(self, waiting: Waiting, allocation: Allocation) -> None:
        """A pending request was given its first blocks."""
        request = self.forget_pending(waiting.request_id)
        self.live[waiting.request_id] = request
        if allocation.num_tokens < waiting.num_tokens:
            self._prompt_tokens[request.handle] = waiting.num_tokens

    def goes_on(self, request: ShadowRequest, allocation: Allocation) -> None:
        """A live request was given blocks for its next tokens."""
        prompt_tokens = self._prompt_tokens.get(request.handle)
        if prompt_tokens is not None and allocation.num_tokens >= prompt_tokens:
            del self._prompt_tokens[request.handle]

    def forget_pending(self, request_id: str) -> ShadowRequest:
        """A pending request is not that any more."""
        self.kept.discard(request_id)
        return self.pending.pop(request_id)

    def detach(self, request_id: str) -> ShadowRequest | None:
        """A request is over; None where nobody of that name holds blocks."""
        request = self.live.pop(request_id, None)
        if request is None and request_id in self.pending:
            request = self.forget_pending(request_id)
        if request is not None:
            self._prompt_tokens.pop(request.handle, None)
            self.detached[request.handle] = request
        return request

    def rename(self, renames: Renames) -> None:
        """Blocks moved: whoever knows them calls them by their new ids from now on."""
        for request in self:
            request.rename(renames)
