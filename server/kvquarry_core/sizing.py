"""How many blocks a request needs: the one place that answers it, whoever asks.

A gate that sums differently from the allocator either waits for ever or breaks its promise.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial

from kvquarry_core.coordinator import Hit
from kvquarry_core.group_rules import GroupRule
from kvquarry_core.ids import BlockId, KindId
from kvquarry_core.messages import AdmitRequest
from kvquarry_core.plan import GroupKind, Plan
from kvquarry_core.prefix_index import PrefixIndex
from kvquarry_core.promise import Promise
from kvquarry_core.touched import Touched


class Sizing:
    """Turns tokens into blocks."""

    def __init__(self, plan: Plan, index: PrefixIndex, rules: Sequence[GroupRule]) -> None:
        self.plan = plan
        self._index = index
        self._rules = rules
        self._kind_ids = [KindId(index) for index in range(len(plan.kinds))]
        self._is_leasable = [
            plan.spec_of_kind(KindId(index)).kind is GroupKind.RECURRENT_STATE
            for index in range(len(plan.kinds))
        ]

    def new_blocks(self, request: AdmitRequest, hit_tokens: int, num_tokens: int) -> list[int]:
        """New blocks by group for a request that goes from a hit to ``num_tokens``."""

        def of_kind(rule: GroupRule) -> int:
            return rule.num_new_blocks(*_span(rule, request, hit_tokens, num_tokens))

        return self._by_group(request, of_kind)

    def attention(self, num_blocks: int) -> list[int]:
        """So many blocks in every group that grows with every token, by group."""
        wanted = [0] * len(self.plan.groups)
        for members, rule in zip(self.plan.kinds, self._rules, strict=True):
            for group in members:
                wanted[group] = num_blocks if rule.grows else 0
        return wanted

    def touched(self, hit: Hit) -> Touched:
        """The blocks a hit will reference."""
        num_blocks = [0] * len(self.plan.classes)
        for kind, kind_hit in zip(self._kind_ids, hit.kinds, strict=True):
            num_in_kind = len(kind_hit.rows) * len(self.plan.kinds[kind])
            num_blocks[self.plan.class_of_kind(kind)] += num_in_kind
        return Touched(num_blocks, partial(self._touched_blocks, hit))

    def _touched_blocks(self, hit: Hit) -> list[set[BlockId]]:
        touched: list[set[BlockId]] = [set() for _ in self.plan.classes]
        for kind, kind_hit in zip(self._kind_ids, hit.kinds, strict=True):
            blocks = touched[self.plan.class_of_kind(kind)]
            for column in self._index.columns(kind, kind_hit.rows):
                blocks.update(column)
        return touched

    def promise(self, request: AdmitRequest, hit_tokens: int) -> Promise:
        """Blocks so that all of a request that must fit gets them, beyond a hit; else none."""
        if not request.must_fit_tokens:
            nothing = [0] * len(self.plan.groups)
            return Promise.of(nothing, nothing)
        in_all = self.new_blocks(request, hit_tokens, request.must_fit_tokens)
        in_flight = request.in_flight_tokens or request.max_grant_tokens
        in_flight += request.lookahead_tokens

        def at_once(rule: GroupRule) -> int:
            span = _span(rule, request, hit_tokens, request.must_fit_tokens)
            return rule.most_new_blocks(*span, in_flight)

        return Promise.of(in_all, self._by_group(request, at_once))

    def whole_sequence(self, request: AdmitRequest, hit_tokens: int) -> list[int]:
        """Blocks by class so that all of a request fits, beyond a hit.

        Blocks that leave a window on the way are used again, so they count once.
        """
        return self.plan.by_class(self.promise(request, hit_tokens).room)

    def could_ever_hold_whole(self, request: AdmitRequest, hit: Hit) -> bool:
        """Whether an empty pool holds all of a request, computed from its hit on or afresh.

        A hit may need less: what lies before its windows is never computed again.
        """
        if self.plan.could_hold(self.whole_sequence(request, 0)):
            return True
        after_hit = self.whole_sequence(request, hit.num_tokens)
        touched = self.touched(hit)
        return self.plan.could_hold(
            [new + len(old) for new, old in zip(after_hit, touched, strict=True)]
        )

    def with_kept_free(self, demand: Sequence[int], request: AdmitRequest) -> list[int]:
        """A demand, and the blocks that must stay free besides."""
        spare = request.keep_free_blocks or [0] * len(demand)
        return [blocks + free for blocks, free in zip(demand, spare, strict=True)]

    def first_token(self, request: AdmitRequest, hit: Hit) -> list[int]:
        """Blocks by class that the shortest first chunk needs in all, those of its hit included."""
        end = hit.num_tokens + 1 + request.lookahead_tokens

        def of_kind(rule: GroupRule) -> int:
            return rule.num_held_blocks(*_span(rule, request, hit.num_tokens, end))

        return self.plan.by_class(self._by_group(request, of_kind))

    def first_chunks(self, request: AdmitRequest, hit: Hit) -> Iterator[list[int]]:
        """Blocks by group for the first chunk, then for ever smaller ones."""
        num_tokens = min(request.max_grant_tokens, request.num_tokens - hit.num_tokens)
        while num_tokens:
            end = hit.num_tokens + num_tokens + request.lookahead_tokens
            yield self.new_blocks(request, hit.num_tokens, end)
            num_tokens //= 2

    def _by_group(self, request: AdmitRequest, of_kind: Callable[[GroupRule], int]) -> list[int]:
        """What a rule says of each kind; nothing for states that the client has leased."""
        wanted = [0] * len(self.plan.groups)
        for index, (members, rule) in enumerate(zip(self.plan.kinds, self._rules, strict=True)):
            if not (request.states_are_leased and self._is_leasable[index]):
                num_blocks = of_kind(rule)
                for group in members:
                    wanted[group] = num_blocks
        return wanted


def _span(
    rule: GroupRule, request: AdmitRequest, first_token: int, end_token: int
) -> tuple[int, int]:
    """The tokens that a rule counts: the encoder's are there from the first step on, or never."""
    return (0, request.encoder_tokens) if rule.is_of_encoder else (first_token, end_token)
