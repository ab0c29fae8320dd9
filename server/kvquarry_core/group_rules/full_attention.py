"""Full attention, and multi-head latent attention, which differs in its bytes only."""

from kvquarry_core.group_rules.rule import Hashes, KindHit, blocks_between
from kvquarry_core.ids import KindId
from kvquarry_core.plan import GroupSpec
from kvquarry_core.prefix_index import PrefixIndex


class FullAttention:
    """Every token attends to every earlier one: all blocks are needed, none is ever skipped."""

    grows = True
    is_of_encoder = False

    def __init__(self, spec: GroupSpec) -> None:
        self.block_tokens = spec.block_tokens
        self._num_dropped = int(spec.is_draft)

    def num_new_blocks(self, hit_tokens: int, num_tokens: int) -> int:
        """See :meth:`GroupRule.num_new_blocks`."""
        return blocks_between(hit_tokens, num_tokens, self.block_tokens)

    def most_new_blocks(self, hit_tokens: int, num_tokens: int, in_flight_tokens: int) -> int:
        """See :meth:`GroupRule.most_new_blocks`; nothing is given up on the way."""
        return self.num_new_blocks(hit_tokens, num_tokens)

    def num_held_blocks(self, num_processed: int, num_tokens: int) -> int:
        """See :meth:`GroupRule.num_held_blocks`."""
        return self.num_new_blocks(0, num_tokens)

    def longest_hit(
        self, index: PrefixIndex, kind: KindId, hashes: Hashes, max_tokens: int
    ) -> KindHit:
        """From left to right: after the first block that is missing nothing is usable."""
        most = max_tokens // self.block_tokens + self._num_dropped
        rows = index.find_leading(kind, hashes.leading(most))
        if self._num_dropped:
            rows = rows[: -self._num_dropped]
        return KindHit(len(rows) * self.block_tokens, rows)
