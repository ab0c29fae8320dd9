"""Memory that a request works in and leaves nothing behind in."""

from kvquarry_core.group_rules.rule import Hashes, KindHit
from kvquarry_core.ids import KindId
from kvquarry_core.plan import GroupSpec
from kvquarry_core.prefix_index import PrefixIndex


class Scratch:
    """One block per request, however long that gets; never shared and never hit.

    At the end of a block of the other kinds it holds nothing that is still needed, so it accepts
    whatever they have.
    """

    grows = False
    is_of_encoder = False

    def __init__(self, spec: GroupSpec) -> None:
        self.block_tokens = spec.block_tokens

    def num_new_blocks(self, hit_tokens: int, num_tokens: int) -> int:
        """See :meth:`GroupRule.num_new_blocks`."""
        return 1 if num_tokens > hit_tokens else 0

    def most_new_blocks(self, hit_tokens: int, num_tokens: int, in_flight_tokens: int) -> int:
        """See :meth:`GroupRule.most_new_blocks`."""
        return self.num_new_blocks(hit_tokens, num_tokens)

    def num_held_blocks(self, num_processed: int, num_tokens: int) -> int:
        """See :meth:`GroupRule.num_held_blocks`."""
        return 1

    def longest_hit(
        self, index: PrefixIndex, kind: KindId, hashes: Hashes, max_tokens: int
    ) -> KindHit:
        """See :meth:`GroupRule.longest_hit`; it needs no row of its own."""
        return KindHit(max_tokens, ())
