"""Refusals worth remembering: the head of a queue is tried at every step, mostly in vain."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from kvquarry_core.ids import BlockHash
from kvquarry_core.messages import Refusal, RefusalCause


@dataclass(frozen=True, slots=True)
class RememberedRefusal:
    """A refusal and what it depends on.

    Attributes:
        refusal: The pool's answer.
        keep_free: Blocks by class that were to stay free for running requests.
        hashes: Of the request: where one of these becomes findable, a longer hit may need less.
    """

    refusal: Refusal
    keep_free: Sequence[int] = ()
    hashes: frozenset[BlockHash] = field(default=frozenset(), repr=False)

    def holds_for(self, keep_free: Sequence[int]) -> bool:
        """Whether who keeps so many blocks free would be refused again."""
        if not any(self.keep_free):
            return True
        return bool(keep_free) and all(map(int.__ge__, keep_free, self.keep_free))


class RefusalMemo:
    """Refusals by request, valid until something changes that could turn one into a yes.

    That is memory that goes back to the pool (any free, retired row or returned grant), content
    that a request could hit, or fewer blocks to keep free.
    """

    def __init__(self) -> None:
        #: Whether somebody waits for memory, this step or the last: then nothing may lie idle.
        self.is_pressing = False
        self._was_refused = False
        self._refusals: dict[str, RememberedRefusal] = {}

    def begin_step(self) -> None:
        """A step starts: who waited for a state of the last one may ask again."""
        self.is_pressing, self._was_refused = self._was_refused, False
        self.clear_cause(RefusalCause.SAME_STEP)

    def note_waiting(self, refusal: Refusal) -> None:
        """Somebody was refused, now or before, and still waits."""
        if refusal.cause is RefusalCause.SHORTAGE:
            self.is_pressing = self._was_refused = True

    def find(self, request_id: str) -> RememberedRefusal | None:
        """The refusal that still holds for a request, or None."""
        return self._refusals.get(request_id)

    def remember(self, request_id: str, remembered: RememberedRefusal) -> None:
        """A request was refused."""
        self._refusals[request_id] = remembered

    def drop(self, request_id: str) -> None:
        """A request is gone, or asks anew."""
        self._refusals.pop(request_id, None)

    def clear(self) -> None:
        """Memory went back: every refusal may be asked about again."""
        if self._refusals:
            self._refusals.clear()

    def note_committed(self, names: Iterable[BlockHash]) -> None:
        """Content became findable: whoever could hit it may ask again."""
        if self._refusals:
            names = tuple(names)
            self._keep(lambda one: one.hashes.isdisjoint(names))

    def clear_cause(self, cause: RefusalCause) -> None:
        """What caused these refusals is over."""
        if self._refusals:
            self._keep(lambda one: one.refusal.cause is not cause)

    def _keep(self, holds: Callable[[RememberedRefusal], bool]) -> None:
        self._refusals = {key: one for key, one in self._refusals.items() if holds(one)}
