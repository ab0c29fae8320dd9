"""A ledger that tells how long each exchange took."""

import time
from collections.abc import Callable, Sequence
from typing import TypeVar

from kvquarry_client.ledger import Eviction, Ledger
from kvquarry_core.messages import AdmitRequest, Answer, Ask, Refusal

_Result = TypeVar("_Result")

#: Told of an exchange: its name, its seconds, and the exception it ended with, if any.
Observer = Callable[[str, float, Exception | None], None]


def timed(name: str, call: Callable[[], _Result], observer: Observer) -> _Result:
    """Call, and tell the observer how it went."""
    start = time.perf_counter()
    try:
        result = call()
    except Exception as error:
        observer(name, time.perf_counter() - start, error)
        raise
    answers = result if isinstance(result, list) else [result]
    refused = " (refused)" if any(isinstance(one, Refusal) for one in answers) else ""
    observer(name + refused, time.perf_counter() - start, None)
    return result


class TimedLedger:
    """A :class:`~kvquarry_client.ledger.Ledger` around another; a shortage is no failure."""

    def __init__(self, ledger: Ledger, observer: Observer) -> None:
        self.num_exchanges = 0
        self._ledger = ledger
        self._observer = observer
        # What waits for no answer goes straight through.
        self.take = ledger.take
        self.settle = ledger.settle
        self.give_back = ledger.give_back
        self.commit = ledger.commit
        self.drop = ledger.drop
        self.free = ledger.free
        self.begin_step = ledger.begin_step
        self.forget = ledger.forget
        self.unpin = ledger.unpin
        self.flush = ledger.flush
        self.end_step = ledger.end_step
        self.tell_empty_slots = ledger.tell_empty_slots
        self.compare_books = ledger.compare_books
        self.free_memory = ledger.free_memory
        self.used_fraction = ledger.used_fraction
        self.close = ledger.close

    def ask(self, asks: Sequence[Ask]) -> list[Answer]:
        """See :meth:`Ledger.ask`."""
        return self._exchange(_name(asks), lambda: self._ledger.ask(asks))

    def ask_first(self, asks: Sequence[Ask]) -> list[Answer]:
        """See :meth:`Ledger.ask_first`."""
        return self._exchange(_name(asks), lambda: self._ledger.ask_first(asks))

    def reset_cache(self) -> bool:
        """See :meth:`Ledger.reset_cache`."""
        return self._exchange("reset cache", self._ledger.reset_cache)

    def take_evictions(self) -> list[Eviction]:
        """See :meth:`Ledger.take_evictions`."""
        return self._ledger.take_evictions()

    def _exchange(self, name: str, call: Callable[[], _Result]) -> _Result:
        self.num_exchanges += 1
        return timed(name, call, self._observer)


def _name(asks: Sequence[Ask]) -> str:
    """What an exchange is counted as."""
    return "admit" if any(isinstance(ask, AdmitRequest) for ask in asks) else "grow"
