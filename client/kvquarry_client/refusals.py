"""Refusals worth remembering: the head of a queue is tried at every step, mostly in vain."""

from dataclasses import dataclass

from kvquarry_core.messages import Refusal, RefusalCause


@dataclass(frozen=True, slots=True)
class RememberedRefusal:
    """A refusal and whether it kept blocks free for running requests."""

    refusal: Refusal
    kept_blocks_free: bool


class RefusalMemo:
    """Refusals by request, valid until something changes that could turn one into a yes.

    The shadow clears it after any free, commit, eviction, reset or returned grant.
    """

    def __init__(self) -> None:
        self._refusals: dict[str, RememberedRefusal] = {}

    def find(self, request_id: str) -> RememberedRefusal | None:
        """The refusal that still holds for a request, or None."""
        return self._refusals.get(request_id)

    def remember(self, request_id: str, refusal: Refusal, *, kept_blocks_free: bool) -> None:
        """A request was refused."""
        self._refusals[request_id] = RememberedRefusal(refusal, kept_blocks_free)

    def drop(self, request_id: str) -> None:
        """A request is gone, or asks anew."""
        self._refusals.pop(request_id, None)

    def clear(self) -> None:
        """Something changed: every refusal may be asked about again."""
        if self._refusals:
            self._refusals.clear()

    def clear_cause(self, cause: RefusalCause) -> None:
        """What caused these refusals is over."""
        kept = {key: one for key, one in self._refusals.items() if one.refusal.cause is not cause}
        self._refusals = kept
