"""What a rule is asked and what it answers."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from kvquarry_core.ids import BlockHash, BlockId, KindId
from kvquarry_core.prefix_index import PrefixIndex


class Hashes:
    """The names of one kind's rows among a request's hashes.

    Hashes are chained, so the last hash of a block of several units names all of it. A draft
    model's row is named by the hash one unit further, and has no name before there is one::

        units            |   |   |   |   |   |   |         three blocks of two units
        names of rows        0       1       2
        of a draft's             0       1

    Attributes:
        num_full: Blocks that are full, with a name or yet without.
    """

    def __init__(
        self,
        hashes: Sequence[BlockHash],
        hashes_per_block: int,
        most_hashes: int | None = None,
        num_beyond: int = 0,
    ) -> None:
        """Of the first ``most_hashes`` hashes; of all, where that is None.

        Args:
            hashes: The request's hashes.
            hashes_per_block: Hash units of a block.
            most_hashes: So many of them count.
            num_beyond: See :attr:`GroupSpec.num_hashes_beyond`.
        """
        self._hashes = hashes
        self._hashes_per_block = hashes_per_block
        self._first = hashes_per_block - 1 + num_beyond
        num_hashes = len(hashes) if most_hashes is None else min(len(hashes), most_hashes)
        self.num_full = self._num_named = num_hashes // hashes_per_block
        if num_beyond:
            self._num_named = max(num_hashes - num_beyond, 0) // hashes_per_block

    def __len__(self) -> int:
        return self._num_named

    def __getitem__(self, block_index: int) -> BlockHash:
        return self._hashes[block_index * self._hashes_per_block + self._first]

    def leading(self, num_blocks: int) -> Sequence[BlockHash]:
        """Those of the first blocks, as many as there are."""
        units, first = self._hashes_per_block, self._first
        end = first + 1 + (min(num_blocks, self._num_named) - 1) * units
        return self._hashes[first:end:units]


@dataclass(frozen=True, slots=True)
class KindHit:
    """The longest prefix one kind has.

    Attributes:
        num_tokens: Length of the prefix, a multiple of the kind's block size.
        rows: The rows to reference, each named by its first block: those that are read from the
            prefix's end on. All for attention, those within reach for a window, the last one for
            states.
    """

    num_tokens: int
    rows: Sequence[BlockId]


NO_HIT = KindHit(0, ())


class GroupRule(Protocol):
    """What a kind of attention needs and accepts.

    Attributes:
        block_tokens: Tokens per block.
        grows: Whether a request needs blocks for as long as it gets longer.
        is_of_encoder: Whether the tokens that blocks hold are the encoder's: then these are
            counted instead of the request's own.
    """

    block_tokens: int
    grows: bool
    is_of_encoder: bool

    def num_new_blocks(self, hit_tokens: int, num_tokens: int) -> int:
        """Blocks a request takes in each group to go from ``hit_tokens`` on in one chunk."""
        ...

    def most_new_blocks(self, hit_tokens: int, num_tokens: int, in_flight_tokens: int) -> int:
        """The most of these it holds at once on the way, however the way is cut into chunks.

        Args:
            hit_tokens: Where it starts.
            num_tokens: Where it ends.
            in_flight_tokens: At most so many tokens are on their way, computed or draft: what
                these read cannot be given up before.
        """
        ...

    def num_held_blocks(self, num_processed: int, num_tokens: int) -> int:
        """Blocks it holds at least, while it goes from ``num_processed`` to ``num_tokens``."""
        ...

    def longest_hit(
        self, index: PrefixIndex, kind: KindId, hashes: Hashes, max_tokens: int
    ) -> KindHit:
        """The longest cached prefix of at most ``max_tokens`` tokens."""
        ...


def blocks_between(first_token: int, end_token: int, block_tokens: int) -> int:
    """Blocks that hold tokens ``[first_token, end_token)``, beginning with a whole block."""
    return max(-(-end_token // block_tokens) - first_token // block_tokens, 0)
