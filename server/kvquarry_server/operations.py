"""What a batch asks for, one class per operation of the wire.

Columns of equal length belong together. Entry ``i`` of each is one row, or, where there is a column
of counts, one run: so many of the blocks (or rows), which stand one after another in their column.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kvquarry_core.ids import BlockHash, BlockId, GroupId, Handle, KindId
from kvquarry_core.messages import Ask


@dataclass(frozen=True, slots=True)
class Take:
    """Spend granted blocks."""

    handles: list[Handle]
    groups: list[GroupId]
    num_blocks: list[int]


@dataclass(frozen=True, slots=True)
class Settle:
    """Give back what was granted and not spent."""

    handles: list[Handle]


@dataclass(frozen=True, slots=True)
class GiveBack:
    """Return leased states."""

    groups: list[GroupId]
    num_blocks: list[int]
    blocks: list[BlockId]


@dataclass(frozen=True, slots=True)
class Commit:
    """Blocks are full. A row has one hash, and one block per member group of its kind.

    Runs with a place above 0 have no hashes here: theirs stand one before it among those that their
    requests were admitted with. Without places, no run has one.
    """

    handles: list[Handle]
    kinds: list[KindId]
    num_rows: list[int]
    hashes: list[BlockHash]
    blocks: list[BlockId]
    places: Sequence[int] = ()


@dataclass(frozen=True, slots=True)
class Drop:
    """Requests no longer need some of their blocks."""

    handles: list[Handle]
    groups: list[GroupId]
    num_blocks: list[int]
    blocks: list[BlockId]


@dataclass(frozen=True, slots=True)
class Free:
    """Requests are over."""

    handles: list[Handle]


@dataclass(frozen=True, slots=True)
class BeginStep:
    """A step starts: states committed before it may be hit from now on."""


@dataclass(frozen=True, slots=True)
class Forget:
    """Make blocks of one group unfindable."""

    group: GroupId
    blocks: list[BlockId]


@dataclass(frozen=True, slots=True)
class ResetCache:
    """Forget all cached content, unless a request still uses blocks."""


@dataclass(frozen=True, slots=True)
class Unpin:
    """End pins before their time."""

    pin_ids: list[str]


@dataclass(frozen=True, slots=True)
class CompareBooks:
    """The client's books must be the pool's."""

    revision: int
    digest: bytes


@dataclass(frozen=True, slots=True)
class Unreadable:
    """An empty operation, or one that only a newer service understands."""


Operation = (
    Ask
    | Take
    | Settle
    | GiveBack
    | Commit
    | Drop
    | Free
    | BeginStep
    | Forget
    | ResetCache
    | Unpin
    | CompareBooks
    | Unreadable
)


@dataclass(frozen=True, slots=True)
class Batch:
    """Operations in the order in which they happened.

    Attributes:
        number: 1, 2, 3, ... within an attachment.
        operations: What happened. They are read off the message one by one, when their turn comes,
            and one that is out of bounds raises then.
        is_quiet: Nobody waits for an answer, unless the batch contains a mistake.
        empty_slots: By kind, see :mod:`kvquarry_core.slot_use`; of no kind where nothing is said.
    """

    number: int
    operations: Iterable[Operation]
    is_quiet: bool = False
    empty_slots: Sequence[int] = ()
