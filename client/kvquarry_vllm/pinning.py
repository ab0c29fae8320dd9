"""Pins prompts whose requests ask for it, as soon as all of a prompt is in the cache.

A pin is named after what it holds, the last block hash of the prompt: the same prompt again extends
it, whoever sends it. Only the prompt is pinned, up to where a request with the same prompt resumes,
so that both the same prompt and every longer one hit the pin; what was generated is not.
"""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from vllm.v1.request import Request

from kvquarry_client.shadow import Shadow
from kvquarry_core.messages import PinRefusal, PinRefusalCause, PinRequest
from kvquarry_vllm.log import logger
from kvquarry_vllm.wishes import Wishes

#: Bytes of a hash that name a pin.
_NAME_BYTES = 16
#: Refusals are logged once in so many seconds: a full cap refuses every request that asks.
_LOG_EVERY_S = 60.0

_WHY = {
    PinRefusalCause.NOTHING_CACHED: "nothing of it is in the cache",
    PinRefusalCause.OVER_CAP: "all pins together would hold more than they may (--pin-cap of "
    "`kvquarry serve`, KVQUARRY_PIN_CAP with inproc:)",
    PinRefusalCause.PROMISED: "what it would hold was promised to requests that run",
    PinRefusalCause.TOO_MANY: "there are as many pins as there may be",
}


class PromptPinning(Protocol):
    """Whoever pins prompts."""

    def expect(self, request: Request, wishes: Wishes) -> None:
        """A request begins; perhaps its prompt is to be pinned."""
        ...

    def note_cached(self, request: Request, num_tokens: int) -> None:
        """The full blocks of a request's first tokens are findable now."""
        ...

    def forget(self, request_id: str) -> None:
        """A request is over, perhaps before its prompt was computed."""
        ...


class NoPinning:
    """Where nothing is cached nothing can be pinned."""

    def expect(self, request: Request, wishes: Wishes) -> None:
        """See :meth:`PromptPinning.expect`."""
        if wishes.pin_s is not None:
            logger.warning_once("kvquarry pins no prompt: prefix caching is off in this engine.")

    def note_cached(self, request: Request, num_tokens: int) -> None:
        """See :meth:`PromptPinning.note_cached`."""

    def forget(self, request_id: str) -> None:
        """See :meth:`PromptPinning.forget`."""


@dataclass(frozen=True, slots=True)
class _DuePin:
    """A prompt to be pinned.

    Attributes:
        num_tokens: How much of it must match to hit what is pinned.
        pin_s: For how long; 0 to end its pin.
    """

    num_tokens: int
    pin_s: float


class Pinning:
    """Pins the prompts of one engine through its shadow."""

    def __init__(self, shadow: Shadow, clock: Callable[[], float] = time.monotonic) -> None:
        plan = shadow.plan
        self._shadow = shadow
        self._clock = clock
        self._hash_tokens = plan.hash_tokens
        self._align = math.lcm(*(spec.block_tokens for spec in plan.groups if spec.may_be_hit))
        # A draft model's rows are found by who goes on beyond them with the same text.
        self._margin_tokens = plan.hash_tokens * max(g.num_hashes_beyond for g in plan.groups)
        self._due: dict[str, _DuePin] = {}
        self._next_log_s = -math.inf

    def expect(self, request: Request, wishes: Wishes) -> None:
        """See :meth:`PromptPinning.expect`."""
        if wishes.pin_s is None:
            return
        # A request computes its last token in any case, so this is where an equal prompt resumes.
        most_tokens = request.num_prompt_tokens - 1 - self._margin_tokens
        num_tokens = most_tokens // self._align * self._align
        if num_tokens > 0:
            due = _DuePin(num_tokens + self._margin_tokens, wishes.pin_s)
            self._due[request.request_id] = due
        else:
            logger.warning_once(
                "kvquarry pins no prompt of less than %d tokens: no block of it is full.",
                self._align + self._margin_tokens + 1,
            )

    def note_cached(self, request: Request, num_tokens: int) -> None:
        """See :meth:`PromptPinning.note_cached`."""
        due = self._due.get(request.request_id) if self._due else None
        if due is None or num_tokens < due.num_tokens:
            return
        del self._due[request.request_id]
        hashes = request.block_hashes[: due.num_tokens // self._hash_tokens]
        name = hashes[-1][:_NAME_BYTES].hex()
        if not due.pin_s:
            self._shadow.unpin(name)
            return
        answer = self._shadow.pin(PinRequest(name, hashes, due.pin_s))
        if isinstance(answer, PinRefusal):
            self._log(request.request_id, answer)

    def forget(self, request_id: str) -> None:
        """See :meth:`PromptPinning.forget`."""
        self._due.pop(request_id, None)

    def _log(self, request_id: str, refusal: PinRefusal) -> None:
        now_s = self._clock()
        if now_s < self._next_log_s:
            return
        self._next_log_s = now_s + _LOG_EVERY_S
        logger.warning(
            "kvquarry does not pin the prompt of request %s: %s. It would take %d bytes; pins hold "
            "%d of at most %d bytes. (This is logged once a minute; kvquarry_pins_refused_total "
            "counts.)",
            request_id,
            _WHY[refusal.cause],
            refusal.wanted_bytes,
            refusal.pinned_bytes,
            refusal.cap_bytes,
        )
