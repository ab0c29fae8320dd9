"""Waiting for a service that is away, and saying so."""

import logging
import time
from collections.abc import Callable
from typing import TypeVar

import grpc

from kvquarry_client.errors import ServiceUnavailable, explained, may_be_retried
from kvquarry_client.target import Target

_Result = TypeVar("_Result")
logger = logging.getLogger(__name__)

#: Between two tries.
RETRY_S = 0.2
_FIRST_PAUSE_S = 5.0


class WaitReport:
    """Says every few seconds who is waited for; the pauses double up to the longest allowed."""

    def __init__(self, target: Target, *, longest_pause_s: float = _FIRST_PAUSE_S) -> None:
        self._target = target
        self._longest_pause_s = longest_pause_s
        self._pause_s = _FIRST_PAUSE_S
        self._started_at = time.monotonic()
        self._next_at = self._started_at

    @property
    def waited_s(self) -> float:
        """How long it has been."""
        return time.monotonic() - self._started_at

    def say_if_due(self) -> None:
        """Log a line, unless the last one is young."""
        if time.monotonic() < self._next_at:
            return
        logger.warning("waiting for kvquarry at %s (%.0f s so far)", self._target, self.waited_s)
        self._next_at = time.monotonic() + self._pause_s
        self._pause_s = min(2 * self._pause_s, self._longest_pause_s)


def retry_while_away(call: Callable[[], _Result], target: Target, *, timeout_s: float) -> _Result:
    """Call until somebody answers, and say every few seconds who is waited for.

    Raises:
        ServiceUnavailable: Nobody answered within ``timeout_s``; names the target.
        ServiceError: Somebody answered and refused.
        MessageTooLarge: The call does not fit into a message.
    """
    report = WaitReport(target)
    while True:
        try:
            return call()
        except grpc.RpcError as error:
            if not may_be_retried(error):
                raise explained(error) from None
        if report.waited_s >= timeout_s:
            raise nobody_answered(target, timeout_s)
        report.say_if_due()
        time.sleep(RETRY_S)


def nobody_answered(target: Target, timeout_s: float) -> ServiceUnavailable:
    """What to raise when the patience is over."""
    return ServiceUnavailable(
        f"no kvquarry service answered at {target} within {timeout_s:.0f} s; start it with "
        f"`kvquarry serve --listen {target}`, or correct KVQUARRY_TARGET"
    )
