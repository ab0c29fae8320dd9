"""Attention that reaches back a limited way: sliding windows and chunks.

::

    sliding window of 6, blocks of 4           chunks of 8, blocks of 4
    0   4   8   12  16                         0   4   8   12  16
    |   |   |   |   |                          |   |   |   |   |
                .....^                                 ....^
    next token 13 reads 8-12                   next token 12 reads 8-11

What is read from the end of a prefix on is all that a hit needs, and all that a request has to
keep. So having a long prefix does not mean to have a shorter one: neither kind is downward closed.
"""

import math
from abc import ABC, abstractmethod

from kvquarry_core.group_rules.rule import NO_HIT, Hashes, KindHit, blocks_between
from kvquarry_core.ids import KindId
from kvquarry_core.plan import GroupKind, GroupSpec
from kvquarry_core.prefix_index import PrefixIndex


class Window(ABC):
    """What sliding windows and chunks have in common.

    The first position that is read never moves back as a request gets longer; everything here
    rests on that.
    """

    grows = True
    is_of_encoder = False

    def __init__(self, spec: GroupSpec, start_granularity: int) -> None:
        """Windows begin at multiples of ``start_granularity`` tokens."""
        self.block_tokens = spec.block_tokens
        self._window_tokens = spec.window_tokens
        self._in_block = spec.block_tokens - math.gcd(spec.block_tokens, start_granularity)

    @abstractmethod
    def first_position(self, num_tokens: int) -> int:
        """The first position that is still read once ``num_tokens`` tokens are there."""

    @abstractmethod
    def last_tokens(self, position: int) -> int:
        """The longest prefix from whose end on a position is still read."""

    def num_new_blocks(self, hit_tokens: int, num_tokens: int) -> int:
        """See :meth:`GroupRule.num_new_blocks`; a chunk fills all its blocks."""
        return blocks_between(hit_tokens, num_tokens, self.block_tokens)

    def most_new_blocks(self, hit_tokens: int, num_tokens: int, in_flight_tokens: int) -> int:
        """The window before the tokens in flight and these themselves, begun within a block."""
        reach = self._window_tokens - 1 + in_flight_tokens
        most = -(-(self._in_block + reach) // self.block_tokens)
        return min(self.num_new_blocks(hit_tokens, num_tokens), most)

    def num_held_blocks(self, num_processed: int, num_tokens: int) -> int:
        """See :meth:`GroupRule.num_held_blocks`."""
        return blocks_between(0, num_tokens, self.block_tokens) - self.first_position(num_processed)

    def longest_hit(
        self, index: PrefixIndex, kind: KindId, hashes: Hashes, max_tokens: int
    ) -> KindHit:
        """From right to left, each position once.

        A missing block rules out every end whose window holds it: the next end to try is the one
        before it.
        """
        end, num_named = min(max_tokens // self.block_tokens, hashes.num_full), len(hashes)
        while end > 0:
            first = self.first_position(end * self.block_tokens)
            if first < end and end > num_named:
                end = num_named
                continue
            found = []
            for position in range(end - 1, first - 1, -1):
                commitment = index.find(kind, hashes[position])
                if commitment is None:
                    end = position
                    break
                found.append(commitment)
            else:
                return KindHit(end * self.block_tokens, tuple(reversed(found)))
        return NO_HIT


class SlidingWindow(Window):
    """A token attends to itself and the ``window_tokens - 1`` tokens before it."""

    def __init__(self, spec: GroupSpec) -> None:
        super().__init__(spec, start_granularity=1)

    def first_position(self, num_tokens: int) -> int:
        """See :meth:`Window.first_position`."""
        return max(num_tokens - self._window_tokens + 1, 0) // self.block_tokens

    def last_tokens(self, position: int) -> int:
        """See :meth:`Window.last_tokens`."""
        return (position + 1) * self.block_tokens + self._window_tokens - 2


class ChunkedLocal(Window):
    """A token attends to itself and those before it in its chunk of ``window_tokens`` tokens."""

    def __init__(self, spec: GroupSpec) -> None:
        super().__init__(spec, start_granularity=spec.window_tokens)

    def first_position(self, num_tokens: int) -> int:
        """See :meth:`Window.first_position`; at the end of a chunk nothing is read any more."""
        start = num_tokens // self._window_tokens * self._window_tokens
        return start // self.block_tokens

    def last_tokens(self, position: int) -> int:
        """See :meth:`Window.last_tokens`."""
        last_token = (position + 1) * self.block_tokens - 1
        return (last_token // self._window_tokens + 1) * self._window_tokens - 1


def window_of(spec: GroupSpec) -> Window | None:
    """How far a group reaches back, or None where nothing limits it."""
    if spec.kind is GroupKind.SLIDING_WINDOW:
        return SlidingWindow(spec)
    return ChunkedLocal(spec) if spec.kind is GroupKind.CHUNKED_LOCAL else None
