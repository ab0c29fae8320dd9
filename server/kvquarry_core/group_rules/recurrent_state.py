"""Recurrent states (Mamba, GDN, KDA, short convolution), kept at block boundaries only."""

from kvquarry_core.group_rules.rule import NO_HIT, Hashes, KindHit
from kvquarry_core.ids import KindId
from kvquarry_core.plan import GroupSpec
from kvquarry_core.prefix_index import PrefixIndex


class RecurrentState:
    """A state sums up the whole prefix: one checkpoint at the hit's end is all that is needed.

    A checkpoint is valid iff it was written after exactly the prefix its hash names; there is
    no minimum length and no window.
    """

    grows = False
    is_of_encoder = False

    def __init__(self, spec: GroupSpec) -> None:
        self.block_tokens = spec.block_tokens
        self._num_states = 1 + spec.num_speculative_blocks

    def num_new_blocks(self, hit_tokens: int, num_tokens: int) -> int:
        """The running state and one more for every draft token that may be rejected."""
        return self._num_states if num_tokens > hit_tokens else 0

    def most_new_blocks(self, hit_tokens: int, num_tokens: int, in_flight_tokens: int) -> int:
        """See :meth:`GroupRule.most_new_blocks`."""
        return self.num_new_blocks(hit_tokens, num_tokens)

    def num_held_blocks(self, num_processed: int, num_tokens: int) -> int:
        """See :meth:`GroupRule.num_held_blocks`; a checkpoint that was hit need not be."""
        return self._num_states

    def longest_hit(
        self, index: PrefixIndex, kind: KindId, hashes: Hashes, max_tokens: int
    ) -> KindHit:
        """From right to left: the last checkpoint within the limit."""
        for position in range(min(max_tokens // self.block_tokens, len(hashes)) - 1, -1, -1):
            found = index.find(kind, hashes[position])
            if found is not None:
                return KindHit((position + 1) * self.block_tokens, (found,))
        return NO_HIT
