"""What kinds have in common that keep a place for every token, as long as the request lives."""

from kvquarry_core.group_rules.rule import blocks_between
from kvquarry_core.plan import GroupSpec


class EveryToken:
    """All tokens are read by every later one: a block is never given up."""

    def __init__(self, spec: GroupSpec) -> None:
        self.block_tokens = spec.block_tokens

    def num_new_blocks(self, hit_tokens: int, num_tokens: int) -> int:
        """See :meth:`GroupRule.num_new_blocks`."""
        return blocks_between(hit_tokens, num_tokens, self.block_tokens)

    def most_new_blocks(self, hit_tokens: int, num_tokens: int, in_flight_tokens: int) -> int:
        """See :meth:`GroupRule.most_new_blocks`; nothing is given up on the way."""
        return self.num_new_blocks(hit_tokens, num_tokens)

    def num_held_blocks(self, num_processed: int, num_tokens: int) -> int:
        """See :meth:`GroupRule.num_held_blocks`."""
        return self.num_new_blocks(0, num_tokens)
