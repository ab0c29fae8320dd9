"""Full attention, and multi-head latent attention, which differs in its bytes only."""

from kvquarry_core.group_rules.every_token import EveryToken
from kvquarry_core.group_rules.rule import Hashes, KindHit
from kvquarry_core.ids import KindId
from kvquarry_core.prefix_index import PrefixIndex


class FullAttention(EveryToken):
    """Every token attends to every earlier one: all blocks are needed, none is ever skipped."""

    grows = True
    is_of_encoder = False

    def longest_hit(
        self, index: PrefixIndex, kind: KindId, hashes: Hashes, max_tokens: int
    ) -> KindHit:
        """From left to right: after the first block that is missing nothing is usable."""
        rows = index.find_leading(kind, hashes.leading(max_tokens // self.block_tokens))
        return KindHit(len(rows) * self.block_tokens, rows)
