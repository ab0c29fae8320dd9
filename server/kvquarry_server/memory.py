"""Memory that forgets: what the service keeps for latecomers, and no more of it than it may."""

from collections.abc import Hashable
from typing import Generic, TypeVar

from kvquarry_server.outcomes import BatchOutcome

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class RecentlySet(Generic[Key, Value]):
    """A map that keeps only the ``most`` keys set last."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._values: dict[Key, Value] = {}

    def __len__(self) -> int:
        return len(self._values)

    def get(self, key: Key) -> Value | None:
        """The value set last, or None when there is none any longer."""
        return self._values.get(key)

    def set(self, key: Key, value: Value) -> None:
        """Remember a value; the key set longest ago may have to go for it."""
        self._values.pop(key, None)
        self._values[key] = value
        if len(self._values) > self._most:
            del self._values[next(iter(self._values))]


class AnswerLog:
    """The last answers of an attachment, for batches that are repeated.

    Kept are at most ``most_answers``, and fewer when they hold more than ``most_entries`` block
    ids and hashes in all; the last one always.
    """

    def __init__(self, *, most_answers: int = 128, most_entries: int = 4_000_000) -> None:
        self._most_answers = most_answers
        self._most_entries = most_entries
        self._outcomes: dict[int, BatchOutcome] = {}
        self._num_entries = 0

    def find(self, number: int) -> BatchOutcome | None:
        """The first answer to a batch, or None when it is no longer kept."""
        return self._outcomes.get(number)

    def keep(self, outcome: BatchOutcome) -> None:
        """Remember an answer; the oldest ones may have to go for it."""
        self._outcomes[outcome.number] = outcome
        self._num_entries += outcome.num_entries
        while len(self._outcomes) > 1 and self._is_over_full():
            oldest = self._outcomes.pop(next(iter(self._outcomes)))
            self._num_entries -= oldest.num_entries

    def _is_over_full(self) -> bool:
        too_many = len(self._outcomes) > self._most_answers
        return too_many or self._num_entries > self._most_entries
