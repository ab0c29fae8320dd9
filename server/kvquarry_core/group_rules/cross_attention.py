"""Attention from a decoder to what an encoder made of another input."""

from kvquarry_core.group_rules.every_token import EveryToken
from kvquarry_core.group_rules.rule import NO_HIT, Hashes, KindHit
from kvquarry_core.ids import KindId
from kvquarry_core.prefix_index import PrefixIndex


class CrossAttention(EveryToken):
    """The blocks hold the encoder's tokens: all of them from the first step on, none ever more.

    What they hold depends on the encoder's input, which a hash of the decoder's tokens does not
    name. So nothing is shared, and no prefix of such a model is ever a hit.
    """

    grows = False
    is_of_encoder = True

    def longest_hit(
        self, index: PrefixIndex, kind: KindId, hashes: Hashes, max_tokens: int
    ) -> KindHit:
        """See :meth:`GroupRule.longest_hit`; there is none."""
        return NO_HIT
