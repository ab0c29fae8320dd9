"""What an answer depends on: where memory is plenty, an ask overtakes all that was gathered since.

::

    gathered     take a, commit a, free b, start of a step
    ask c        start of a step, admit c | take a, commit a, free b, start of a step

Whether a request hits depends on commits of the content that it names, and on what is forgotten.
Memory given up makes no difference where there is enough, nor does memory spent that was granted.

Hashes are chained, and a request's rows are committed in their order: whose text has the content of
any of them has that of the first one committed.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kvquarry.v1alpha import pool_pb2
from kvquarry_core.ids import BlockHash

#: Those that are asked about: the hashes of each.
Texts = Sequence[Sequence[BlockHash]]
# Index of the operation, name, place of the name.
_Note = tuple[int, BlockHash | None, int | None]


@dataclass(frozen=True, slots=True)
class Manners:
    """What bears on all answers besides, for the sake of what answers tell.

    Attributes:
        moves_blocks: Answers tell of blocks that moved. Whatever names blocks comes before: it
            means those that had these names when it was called. So does the start of a step, after
            which blocks handed out before it may be moved.
        hears_evictions: Answers tell what became unfindable. Commits come before: what is findable
            again was not evicted.
    """

    moves_blocks: bool = False
    hears_evictions: bool = False


class Bearing:
    """Which operations of a batch the answers depend on that are asked for after them."""

    __slots__ = ("_notes",)

    def __init__(self, notes: Iterable[_Note] = ()) -> None:
        self._notes = list(notes)

    def note(self, index: int, name: BlockHash | None = None, place: int | None = None) -> None:
        """The operation bears on answers about texts with this name, on all where none is given.

        ``place`` is where it stands in them, where that is known.
        """
        self._notes.append((index, name, place))

    def num_before(self, texts: Texts) -> int:
        """How many operations, from the first, come before an ask about these texts."""
        for index, name, place in reversed(self._notes):
            if name is None or any(_is_in(hashes, name, place) for hashes in texts):
                return index + 1
        return 0

    def cut(self, num_before: int) -> "tuple[Bearing, Bearing]":
        """That of so many operations, and that of those behind them."""
        notes = self._notes
        return (
            Bearing(note for note in notes if note[0] < num_before),
            Bearing((note[0] - num_before, *note[1:]) for note in notes if note[0] >= num_before),
        )


def _is_in(hashes: Sequence[BlockHash], name: BlockHash, place: int | None) -> bool:
    if place is None:
        return name in hashes
    return place < len(hashes) and hashes[place] == name


@dataclass(frozen=True, slots=True)
class Gathered:
    """A batch that was gathered, and may not have been sent.

    Attributes:
        message: The batch.
        bearing: What of it bears on answers.
    """

    message: pool_pb2.AttachRequest
    bearing: Bearing

    def __len__(self) -> int:
        return len(self.message.batch.operations)

    def begins_step(self) -> bool:
        """Whether a step starts in it."""
        return any(one.HasField("begin_step") for one in self.message.batch.operations)
