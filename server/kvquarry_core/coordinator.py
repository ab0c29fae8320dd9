"""The longest prefix that every kind of a model accepts."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from kvquarry_core.group_rules import NO_HIT, Hashes, KindHit, rule_for
from kvquarry_core.ids import BlockHash, KindId
from kvquarry_core.plan import GroupKind, Plan
from kvquarry_core.prefix_index import PrefixIndex


@dataclass(frozen=True, slots=True)
class Hit:
    """A prefix all kinds have.

    Attributes:
        num_tokens: Its length.
        longest_tokens: Where a hit could end if every kind had what any single one has. Where
            that is later, another request shares more with this one than can be used: the
            junction, worth a checkpoint (Marconi, arXiv 2411.19379). Beside a draft model, who
            parts there resumes one hash unit before what the other kinds have.
        kinds: What each kind contributes, by :data:`KindId`.
    """

    num_tokens: int
    longest_tokens: int
    kinds: tuple[KindHit, ...]


NOTHING_HIT = Hit(0, 0, ())


class Coordinator:
    """Reconciles the rules of all kinds; models of one kind take the short way."""

    def __init__(self, plan: Plan) -> None:
        specs = [plan.spec_of_kind(KindId(index)) for index in range(len(plan.kinds))]
        self.rules = tuple(rule_for(spec) for spec in specs)
        #: What a request builds on that finds nothing.
        self.no_hit = Hit(0, 0, (NO_HIT,) * len(specs))
        self._hash_tokens = plan.hash_tokens
        self._alignment = math.lcm(*(spec.block_tokens for spec in specs if spec.may_be_hit))
        # Of each kind, hash units per block and those beyond a row's end that its name covers.
        self._units = [
            (
                spec.block_tokens // plan.hash_tokens if spec.may_be_hit else 1,
                spec.num_hashes_beyond,
            )
            for spec in specs
        ]
        # What a kind has beyond the place where somebody who parts there could resume.
        most_beyond = max(beyond for _, beyond in self._units)
        self._margin_tokens = [(most_beyond - own) * plan.hash_tokens for _, own in self._units]
        self._is_downward_closed = [spec.kind is GroupKind.FULL_ATTENTION for spec in specs]
        # What cross attention holds is named by no hash, and scratch alone holds nothing.
        self._never_hits = any(spec.kind is GroupKind.CROSS_ATTENTION for spec in specs) or not any(
            spec.may_be_hit for spec in specs
        )

    def longest_hit(self, index: PrefixIndex, hashes: Sequence[BlockHash], max_tokens: int) -> Hit:
        """The longest prefix of at most ``max_tokens`` tokens that every kind accepts."""
        if self._never_hits:
            return self.no_hit
        if len(self.rules) > 1:
            return self.reconcile(index, hashes, max_tokens)
        units, beyond = self._units[0]
        view = Hashes(hashes, units, max_tokens // self._hash_tokens, beyond)
        limit = self._limit(hashes, max_tokens)
        found = self.rules[0].longest_hit(index, KindId(0), view, limit)
        return Hit(found.num_tokens, found.num_tokens, (found,))

    def reconcile(self, index: PrefixIndex, hashes: Sequence[BlockHash], max_tokens: int) -> Hit:
        """The same for any number of kinds, one of which at least can be hit.

        Each kind accepts a candidate length or shortens it; a shorter one is put to all kinds
        again, until nobody objects. A kind shortens no further than to the longest that it has
        itself, so no length that all kinds have is passed over, and since lengths only shrink,
        this ends. A window or a state may have a long prefix and lack a shorter one: they are
        asked anew every time.
        """
        most_hashes = max_tokens // self._hash_tokens
        views = [Hashes(hashes, units, most_hashes, beyond) for units, beyond in self._units]
        hits: list[KindHit | None] = [None] * len(self.rules)
        longest, candidate = 0, self._limit(hashes, max_tokens)
        while candidate:
            length = candidate
            for kind, rule in enumerate(self.rules):
                earlier = hits[kind]
                if earlier is not None and self._is_downward_closed[kind]:
                    hit = shorten(earlier, length, rule.block_tokens)
                else:
                    hit = rule.longest_hit(index, KindId(kind), views[kind], length)
                hits[kind] = hit
                if hit.rows and hit.num_tokens > longest:
                    longest = max(longest, hit.num_tokens - self._margin_tokens[kind])
                length = hit.num_tokens // self._alignment * self._alignment
            if length == candidate:
                break
            candidate = length
        if longest > candidate:
            longest = max(longest // self._alignment * self._alignment, candidate)
        if not candidate:
            return Hit(0, longest, (NO_HIT,) * len(self.rules))
        return Hit(candidate, max(longest, candidate), tuple(hit or NO_HIT for hit in hits))

    def _limit(self, hashes: Sequence[BlockHash], max_tokens: int) -> int:
        """The longest prefix that has hashes, in tokens, where a hit may end."""
        limit = min(max_tokens // self._hash_tokens, len(hashes)) * self._hash_tokens
        return limit // self._alignment * self._alignment


def shorten(hit: KindHit, max_tokens: int, block_tokens: int) -> KindHit:
    """The part of a downward-closed hit that lies within ``max_tokens``; no lookup needed."""
    num_tokens = min(hit.num_tokens, max_tokens)
    return KindHit(num_tokens, hit.rows[: num_tokens // block_tokens])
