"""Who is asked for together with a waiting request.

Those who share text with it that is not in the cache yet are not: it is about to commit that, and
they hit it when it is their turn. A guess that was wrong costs an exchange, never a hit: whoever
could hit more by then asks again (:mod:`kvquarry_client.admissions`).
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence

from kvquarry_client.scheduling import Waiting
from kvquarry_core.ids import BlockHash

#: Hashes in one exchange: 32 bytes each, half of the least that a service may be told to take in
#: one message.
_MOST_HASHES = 1_000
#: First blocks of texts whose cached lengths are remembered.
_MOST_BEGINNINGS = 1_024


class Company:
    """Chooses among those next in line."""

    def __init__(self) -> None:
        # How many hashes were found of texts that begin with one; the latest ones last.
        self._found: dict[BlockHash, int] = {}

    def note_found(self, hashes: Sequence[BlockHash], num_found: int) -> None:
        """So much of a text was in the cache."""
        if num_found:
            self._found.pop(hashes[0], None)
            self._found[hashes[0]] = num_found
            if len(self._found) > _MOST_BEGINNINGS:
                del self._found[next(iter(self._found))]

    def of(
        self,
        waiting: Waiting,
        next_in_line: Iterable[Waiting],
        is_held: Callable[[str], object],
    ) -> Iterator[Waiting]:
        """Those who may come along; ``is_held`` says who needs not, by id."""
        texts = [waiting.hashes]
        num_hashes = len(waiting.hashes)
        for one in next_in_line:
            num_hashes += len(one.hashes)
            if num_hashes > _MOST_HASHES:
                return
            if not is_held(one.request_id) and all(self._is_apart(one.hashes, t) for t in texts):
                texts.append(one.hashes)
                yield one

    def _is_apart(self, hashes: Sequence[BlockHash], others: Sequence[BlockHash]) -> bool:
        """Whether two texts part where they are in the cache, or before."""
        if not hashes or not others or hashes[0] != others[0]:
            return True
        return num_shared(hashes, others) <= self._found.get(hashes[0], 0)


def num_shared(hashes: Sequence[BlockHash], others: Sequence[BlockHash]) -> int:
    """How many hashes two texts begin with; they are chained, so none is shared after another."""
    both = range(min(len(hashes), len(others)))
    return bisect_left(both, x=True, key=lambda place: hashes[place] != others[place])
