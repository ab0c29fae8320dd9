"""Who is asked for together with a waiting request.

Those who share text with it that is not in the cache yet are not: it is about to commit that, and
they hit it when it is their turn. A guess that was wrong costs an exchange, never a hit: whoever
could hit more by then asks again (:mod:`kvquarry_client.admissions`).
"""

from bisect import bisect_left
from collections.abc import Container, Iterable, Iterator, Sequence

from kvquarry_client.scheduling import Waiting
from kvquarry_core.ids import BlockHash

#: Hashes in one exchange: 34 bytes each on the wire. Whoever comes along takes as much besides as a
#: few of them, so that all together stay within the least that a service may be told to take.
_MOST_HASHES = 1_000
_HASHES_OF_REQUEST = 4
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
        self, waiting: Waiting, next_in_line: Iterable[Waiting], held: Container[str]
    ) -> Iterator[Waiting]:
        """Those who may come along; who is ``held`` already, by id, need not."""
        chosen = {_beginning(waiting): [waiting.hashes]}
        num_hashes = len(waiting.hashes)
        for one in next_in_line:
            num_hashes += len(one.hashes) + _HASHES_OF_REQUEST
            if num_hashes > _MOST_HASHES:
                return
            alike = chosen.setdefault(_beginning(one), [])
            if one.request_id not in held and self._is_apart(one.hashes, alike):
                alike.append(one.hashes)
                yield one

    def _is_apart(self, hashes: Sequence[BlockHash], alike: Sequence[Sequence[BlockHash]]) -> bool:
        """Whether a text parts from those with the same first block where they are cached."""
        if not hashes or not alike:
            return True
        most_shared = max(num_shared(hashes, others) for others in alike)
        return most_shared <= self._found.get(hashes[0], 0)


def _beginning(waiting: Waiting) -> BlockHash | None:
    return waiting.hashes[0] if waiting.hashes else None


def num_shared(hashes: Sequence[BlockHash], others: Sequence[BlockHash]) -> int:
    """How many hashes two texts begin with; they are chained, so none is shared after another."""
    both = range(min(len(hashes), len(others)))
    return bisect_left(both, x=True, key=lambda place: hashes[place] != others[place])
