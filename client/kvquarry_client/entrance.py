"""The exchange that lets a request in: its hit, blocks to go on from there, states to run on.

Where memory allows, the same exchange brings blocks to decode into and, where memory is plenty,
those for all chunks of the prompt. A request that is refused with luxury asks again without.
"""

import itertools
import operator
from collections.abc import Sequence
from dataclasses import replace

from kvquarry_client.allowance import Allowance
from kvquarry_client.idle import IdleBlocks
from kvquarry_client.ledger import Ledger
from kvquarry_client.records import ShadowRequest
from kvquarry_client.roster import Roster
from kvquarry_client.scheduling import ShadowSettings, Waiting
from kvquarry_client.supply import Supply
from kvquarry_core.ids import Handle, KindId
from kvquarry_core.messages import Admission, AdmitRequest, Refusal, RefusalCause
from kvquarry_core.plan import Plan

#: A request leaves checkpoints behind, and with each of them a state of the stock. Where memory is
#: plenty, whoever has to lease some leases so many rows more of their kind.
_MORE_ROWS = 3


class Entrance:
    """Asks the pool to admit requests, one exchange each."""

    def __init__(  # noqa: PLR0913 - parts of one shadow, keyword-only
        self,
        plan: Plan,
        ledger: Ledger,
        *,
        roster: Roster,
        idle: IdleBlocks,
        supply: Supply,
        settings: ShadowSettings,
    ) -> None:
        self._plan = plan
        self._ledger = ledger
        self._roster = roster
        self._idle = idle
        self._supply = supply
        self._settings = settings
        self._handles = itertools.count(1)

    def ask(self, waiting: Waiting, keep_free: Sequence[int]) -> ShadowRequest | Refusal:
        """Admit a waiting request that leaves ``keep_free`` blocks, by class, to others.

        All that lies idle goes back before it is refused.
        """
        starting, soon = self._states_to_start(waiting), self._states_soon(waiting)
        wanted = [*map(operator.add, starting, soon)]
        lavish = self._for_several(wanted)
        if lavish != wanted and self._supply.is_plenty(self._blocks_of_life(waiting, lavish)):
            wanted = lavish
        allowance = self._supply.allow(self._blocks_of_life(waiting, wanted))
        is_frugal = not allowance and not self._idle
        admit = self._request(waiting, keep_free, allowance)
        answer = self._exchange(waiting, admit, starting, wanted, allowance)
        if is_frugal or not _may_be_turned(answer, allowance):
            return answer
        self._idle.return_all()
        nothing = self._supply.nothing_allowed
        plain = self._request(waiting, keep_free, nothing)
        return self._exchange(waiting, plain, starting, starting, nothing)

    def _exchange(
        self,
        waiting: Waiting,
        admit: AdmitRequest,
        starting: Sequence[int],
        wanted: Sequence[int],
        allowance: Allowance,
    ) -> ShadowRequest | Refusal:
        """One exchange: states to run the request on, its hit, and blocks to go on from it."""
        lease = self._supply.lease(starting, wanted, allowance)
        *of_lease, answer = self._supply.exchange([*lease, admit], allowance)
        if isinstance(answer, Refusal):
            return answer
        assert isinstance(answer, Admission), f"an admission was answered with {answer}"
        no_state = next((one for one in of_lease if isinstance(one, Refusal)), None)
        if no_state is None:
            return ShadowRequest(self._plan, self._idle.stock, admit.handle, answer, waiting)
        self._ledger.free(admit.handle)
        return replace(no_state, hit_tokens=answer.hit_tokens, longest_tokens=answer.longest_tokens)

    def _request(
        self, waiting: Waiting, keep_free: Sequence[int], allowance: Allowance
    ) -> AdmitRequest:
        """What is needed, and as much of what is allowed as the request can use."""
        settings = self._settings
        first_chunk = settings.max_grant_tokens
        if allowance.is_plenty:
            first_chunk = max(first_chunk, waiting.num_tokens)
        return AdmitRequest(
            # One that no admission was asked for with.
            Handle(next(self._handles)),
            waiting.hashes,
            num_tokens=waiting.num_tokens,
            max_hit_tokens=waiting.num_tokens - 1 if waiting.hashes else 0,
            max_grant_tokens=first_chunk,
            lookahead_tokens=settings.lookahead_tokens + self._tokens_ahead(waiting, allowance),
            must_fit_tokens=waiting.num_tokens if settings.must_fit_whole else 0,
            keep_free_blocks=keep_free,
            states_are_leased=True,
            in_flight_tokens=settings.in_flight_tokens or settings.max_grant_tokens,
            encoder_tokens=waiting.encoder_tokens,
            priority=waiting.priority,
        )

    def _tokens_ahead(self, waiting: Waiting, allowance: Allowance) -> int:
        """Tokens to decode that blocks may be asked for at once."""
        most = allowance.rows_ahead * self._supply.ahead_block_tokens
        if waiting.most_tokens is None:
            return most
        return min(most, max(waiting.most_tokens - waiting.num_tokens, 0))

    def _states_to_start(self, waiting: Waiting) -> list[int]:
        """Rows of states that this request and those pending start with, by kind."""
        num_others = len(self._roster.pending.keys() - {waiting.request_id})
        rows = [0] * len(self._plan.kinds)
        for index, is_stocked in enumerate(self._idle.stock.stocks):
            if is_stocked:
                spec = self._plan.spec_of_kind(KindId(index))
                rows[index] = (1 + num_others) * (1 + spec.num_speculative_blocks)
        return rows

    def _states_soon(self, waiting: Waiting) -> list[int]:
        """Rows of states that will be needed besides: a prompt of several chunks runs on two."""
        rows = self._supply.states_soon()
        for index, is_stocked in enumerate(self._idle.stock.stocks):
            spec = self._plan.spec_of_kind(KindId(index))
            if is_stocked and waiting.num_tokens > spec.block_tokens:
                rows[index] += 1
        return rows

    def _for_several(self, wanted: Sequence[int]) -> list[int]:
        """Rows of states by kind, so that the next few requests find theirs in stock.

        When nobody is left who runs, the stock goes back; so a request alone leases its own.
        """
        in_stock = self._idle.stock.num_rows_by_kind()
        return [
            rows + _MORE_ROWS if rows > present and self._roster else rows
            for rows, present in zip(wanted, in_stock, strict=True)
        ]

    def _blocks_of_life(self, waiting: Waiting, state_rows: Sequence[int]) -> list[int]:
        """As many blocks by group as an admission takes at most, luxury included."""
        settings = self._settings
        num_slots = waiting.num_tokens + settings.lookahead_tokens + settings.ahead_tokens
        stock = self._idle.stock
        rows = [
            max(state_rows[index] - stock.num_rows(KindId(index)), 0)
            if is_stocked
            else -(-num_slots // self._plan.spec_of_kind(KindId(index)).block_tokens)
            for index, is_stocked in enumerate(stock.stocks)
        ]
        return self._supply.by_group(rows)


def _may_be_turned(answer: ShadowRequest | Refusal, allowance: Allowance) -> bool:
    """Whether a refusal might be none with less luxury.

    Whoever waits for a state of this step waits; whoever never fits does not without luxury either.
    """
    if not isinstance(answer, Refusal) or answer.cause is RefusalCause.SAME_STEP:
        return False
    return bool(allowance) or answer.cause is RefusalCause.SHORTAGE
