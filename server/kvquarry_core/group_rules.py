"""One rule set per kind of attention.

Each rule answers: how many new blocks do these tokens need, and what is the longest valid hit?
Source: vllm-project/vllm#16101 and vLLM's ``single_type_kv_cache_manager``; written anew.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from kvquarry_core.errors import PlanError, Reason
from kvquarry_core.ids import BlockHash, BlockId, KindId
from kvquarry_core.plan import GroupKind, GroupSpec
from kvquarry_core.prefix_index import PrefixIndex


class Hashes:
    """A request's block hashes, seen at one kind's block size.

    Hashes are chained, so the last hash of a block of several units names all of it.
    """

    def __init__(self, hashes: Sequence[BlockHash], hashes_per_block: int) -> None:
        self._hashes = hashes
        self._hashes_per_block = hashes_per_block

    def __len__(self) -> int:
        return len(self._hashes) // self._hashes_per_block

    def __getitem__(self, block_index: int) -> BlockHash:
        return self._hashes[(block_index + 1) * self._hashes_per_block - 1]

    def leading(self, num_blocks: int) -> Sequence[BlockHash]:
        """Those of the first blocks, as many as there are."""
        units = self._hashes_per_block
        return self._hashes[units - 1 : num_blocks * units : units]


@dataclass(frozen=True, slots=True)
class KindHit:
    """The longest prefix one kind has.

    Attributes:
        num_tokens: Length of the prefix, a multiple of the kind's block size.
        rows: The rows to reference, each named by its first block: all of the prefix for
            attention, only the last one for states.
    """

    num_tokens: int
    rows: Sequence[BlockId]


NO_HIT = KindHit(0, ())


class GroupRule(Protocol):
    """What a kind of attention needs and accepts."""

    block_tokens: int

    def num_new_blocks(self, hit_tokens: int, num_tokens: int) -> int:
        """Blocks a new request takes in each group to go from a hit to ``num_tokens``."""
        ...

    def longest_hit(
        self, index: PrefixIndex, kind: KindId, hashes: Hashes, max_tokens: int
    ) -> KindHit:
        """The longest cached prefix of at most ``max_tokens`` tokens."""
        ...


class FullAttention:
    """Every token attends to every earlier one: all blocks are needed, none is ever skipped."""

    def __init__(self, spec: GroupSpec) -> None:
        self.block_tokens = spec.block_tokens

    def num_new_blocks(self, hit_tokens: int, num_tokens: int) -> int:
        """See :meth:`GroupRule.num_new_blocks`."""
        return max(-(-num_tokens // self.block_tokens) - hit_tokens // self.block_tokens, 0)

    def longest_hit(
        self, index: PrefixIndex, kind: KindId, hashes: Hashes, max_tokens: int
    ) -> KindHit:
        """From left to right: after the first block that is missing nothing is usable."""
        rows = index.find_leading(kind, hashes.leading(max_tokens // self.block_tokens))
        return KindHit(len(rows) * self.block_tokens, rows)


class RecurrentState:
    """A state sums up the whole prefix: one checkpoint at the hit's end is all that is needed.

    A checkpoint is valid iff it was written after exactly the prefix its hash names; there is
    no minimum length and no window.
    """

    def __init__(self, spec: GroupSpec) -> None:
        self.block_tokens = spec.block_tokens
        self._num_states = 1 + spec.num_speculative_blocks

    def num_new_blocks(self, hit_tokens: int, num_tokens: int) -> int:
        """The running state and one more for every draft token that may be rejected."""
        return self._num_states if num_tokens > hit_tokens else 0

    def longest_hit(
        self, index: PrefixIndex, kind: KindId, hashes: Hashes, max_tokens: int
    ) -> KindHit:
        """From right to left: the last checkpoint within the limit."""
        for position in range(min(max_tokens // self.block_tokens, len(hashes)) - 1, -1, -1):
            found = index.find(kind, hashes[position])
            if found is not None:
                return KindHit((position + 1) * self.block_tokens, (found,))
        return NO_HIT


_RULES: dict[GroupKind, type[FullAttention] | type[RecurrentState]] = {
    GroupKind.FULL_ATTENTION: FullAttention,
    GroupKind.RECURRENT_STATE: RecurrentState,
}


def rule_for(spec: GroupSpec) -> GroupRule:
    """The rules a group's kind follows."""
    rule = _RULES.get(spec.kind)
    if rule is None:
        raise PlanError(Reason.INVALID_GROUPS, f"no rules for groups of {spec.kind.value} yet")
    return rule(spec)
