"""Attention from a decoder to what an encoder made of another input."""

from kvquarry_core.group_rules.rule import NO_HIT, Hashes, KindHit, blocks_between
from kvquarry_core.ids import KindId
from kvquarry_core.plan import GroupSpec
from kvquarry_core.prefix_index import PrefixIndex


class CrossAttention:
    """The blocks hold the encoder's tokens: all of them from the first step on, none ever more.

    What they hold depends on the encoder's input, which a hash of the decoder's tokens does not
    name. So nothing is shared, and no prefix of such a model is ever a hit.
    """

    grows = False
    is_of_encoder = True

    def __init__(self, spec: GroupSpec) -> None:
        self.block_tokens = spec.block_tokens

    def num_new_blocks(self, hit_tokens: int, num_tokens: int) -> int:
        """See :meth:`GroupRule.num_new_blocks`."""
        return blocks_between(hit_tokens, num_tokens, self.block_tokens)

    def most_new_blocks(self, hit_tokens: int, num_tokens: int, in_flight_tokens: int) -> int:
        """See :meth:`GroupRule.most_new_blocks`; every decoder token reads all of them."""
        return self.num_new_blocks(hit_tokens, num_tokens)

    def num_held_blocks(self, num_processed: int, num_tokens: int) -> int:
        """See :meth:`GroupRule.num_held_blocks`."""
        return self.num_new_blocks(0, num_tokens)

    def longest_hit(
        self, index: PrefixIndex, kind: KindId, hashes: Hashes, max_tokens: int
    ) -> KindHit:
        """See :meth:`GroupRule.longest_hit`; there is none."""
        return NO_HIT
