"""How much may lie idle with the engine, judged by the memory that was heard of last.

See :mod:`kvquarry_core.luxury` for the rule; the pool judges by the same.
"""

import operator
from collections.abc import Sequence
from dataclasses import dataclass

from kvquarry_client.ledger import Ledger
from kvquarry_client.tables import ANY_NUMBER
from kvquarry_core.group_rules import rule_for
from kvquarry_core.ids import KindId
from kvquarry_core.plan import Plan


@dataclass(frozen=True, slots=True)
class Allowance:
    """What may be had besides what is needed.

    Attributes:
        is_plenty: Memory is plenty: nothing has to go for it.
        rows_ahead: Rows each request may have ahead in every kind that grows.
        state_rows: Rows that may lie in stock, by kind.
    """

    is_plenty: bool
    rows_ahead: int
    state_rows: Sequence[int]

    def __bool__(self) -> bool:
        """Whether there is any."""
        return bool(self.rows_ahead or any(self.state_rows))


class Abundance:
    """Turns free memory into allowances."""

    def __init__(self, plan: Plan, ledger: Ledger, *, ahead_tokens: int) -> None:
        self._plan = plan
        self._ledger = ledger
        self._grows = [rule_for(plan.spec_of_kind(KindId(k))).grows for k in range(len(plan.kinds))]
        block_tokens = [
            plan.spec_of_kind(KindId(kind)).block_tokens
            for kind, grows in enumerate(self._grows)
            if grows
        ]
        #: Of the kind that grows with the smallest blocks: it asks most often.
        self.block_tokens = min(block_tokens, default=1)
        self._rows_ahead = -(-ahead_tokens // self.block_tokens) if block_tokens else 0
        #: Whether anything may ever lie idle.
        self.is_on = bool(self._rows_ahead)

    def is_plenty(self, by_group: Sequence[int], kept_free: Sequence[int] = ()) -> bool:
        """Whether luxury is wanted, and free memory holds so many blocks and more.

        What is kept free for others, by class, comes on top.
        """
        if not self.is_on:
            return False
        demand = self._plan.by_class(by_group)
        if kept_free:
            demand = [*map(operator.add, demand, kept_free)]
        return self._ledger.free_memory().leaves_reserve(self._plan, demand)

    def most_idle(self) -> list[int]:
        """Blocks by class that may lie idle where memory is not plenty."""
        nothing = [0] * len(self._plan.classes)
        return self._ledger.free_memory().most_idle(self._plan, nothing) if self.is_on else nothing

    def without_bounds(self) -> Allowance:
        """Where memory is plenty."""
        any_number = [ANY_NUMBER] * len(self._plan.kinds)
        return Allowance(is_plenty=True, rows_ahead=self._rows_ahead, state_rows=any_number)

    def within(self, most_idle: Sequence[int], num_requests: int) -> Allowance:
        """Where it is not: so many blocks by class, shared among so many requests.

        Where they are too few for all, those who come first may have one row each.
        """
        rows_ahead, state_rows = self._rows_ahead, []
        for index, members in enumerate(self._plan.kinds):
            most = most_idle[self._plan.class_of_kind(KindId(index))] // len(members)
            state_rows.append(most)
            if self._grows[index]:
                rows_ahead = min(rows_ahead, max(most // num_requests, min(most, 1)))
        return Allowance(is_plenty=False, rows_ahead=rows_ahead, state_rows=state_rows)
