"""The exchange that lets requests in: their hits, blocks to go on from there, states to run on.

Where memory allows, the same exchange brings blocks to decode into and, where memory is plenty,
those for all chunks of the prompt, and lets those in who will probably ask next. A request that is
refused with luxury asks again without.
"""

import itertools
import operator
from collections.abc import Sequence
from dataclasses import dataclass, replace

from kvquarry_client.allowance import Allowance
from kvquarry_client.idle import IdleBlocks
from kvquarry_client.ledger import Ledger
from kvquarry_client.records import ShadowRequest
from kvquarry_client.roster import Roster
from kvquarry_client.scheduling import ShadowSettings, Waiting
from kvquarry_client.supply import Supply
from kvquarry_core.ids import Handle, KindId
from kvquarry_core.messages import Admission, AdmitRequest, Answer, Refusal, RefusalCause
from kvquarry_core.plan import Plan

#: A request leaves checkpoints behind, and with each of them a state of the stock. Where memory is
#: plenty, whoever has to lease some leases so many rows more of their kind.
_MORE_ROWS = 3


@dataclass(frozen=True, slots=True)
class Applicant:
    """A waiting request, and blocks by class that its admission leaves to others."""

    waiting: Waiting
    keep_free: Sequence[int]


@dataclass(frozen=True, slots=True)
class Entry:
    """What came of asking: the answer to the request, and those of its company who were let in."""

    answer: ShadowRequest | Refusal
    company: Sequence[tuple[Applicant, ShadowRequest]] = ()


class Entrance:
    """Asks the pool to admit requests."""

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

    def ask(self, applicant: Applicant, company: Sequence[Applicant] = ()) -> Entry:
        """Admit a waiting request and, where memory is plenty for all of them, its company, too.

        All that lies idle goes back before the request is refused, and what its company got.
        """
        everybody = [applicant, *company]
        if company:
            coming = [one.waiting.num_tokens for one in everybody]
            wanted = self._for_several(self._states_wanted(everybody, coming))
            demand = self._blocks_of_lives(everybody, wanted)
            if self._supply.is_plenty(demand, company[-1].keep_free):
                first, *others = self._exchange(everybody, wanted, self._supply.allow(demand))
                came = [*zip(company, others, strict=True)]
                return self._entry(applicant, first, came)
        return Entry(self._ask_alone(applicant))

    def _entry(
        self,
        applicant: Applicant,
        first: ShadowRequest | Refusal,
        company: Sequence[tuple[Applicant, ShadowRequest | Refusal]],
    ) -> Entry:
        """Those who were let in together; whoever comes first is not short of what others got."""
        came = [(one, got) for one, got in company if isinstance(got, ShadowRequest)]
        if not (isinstance(first, Refusal) and first.cause is RefusalCause.SHORTAGE):
            return Entry(first, came)
        for _, got in came:
            self._ledger.free(got.handle)
        return Entry(self._ask_plainly(applicant))

    def _ask_alone(self, applicant: Applicant) -> ShadowRequest | Refusal:
        """With as much luxury as may be, and then without."""
        wanted = self._states_wanted([applicant])
        lavish = self._for_several(wanted)
        if lavish != wanted and self._supply.is_plenty(self._blocks_of_lives([applicant], lavish)):
            wanted = lavish
        allowance = self._supply.allow(self._blocks_of_lives([applicant], wanted))
        is_frugal = not allowance and not self._idle
        [answer] = self._exchange([applicant], wanted, allowance)
        if is_frugal or not _may_be_turned(answer, allowance):
            return answer
        return self._ask_plainly(applicant)

    def _ask_plainly(self, applicant: Applicant) -> ShadowRequest | Refusal:
        """When nothing lies idle any more."""
        self._idle.return_all()
        starting = self._states_to_start([applicant])
        [answer] = self._exchange([applicant], starting, self._supply.nothing_allowed)
        return answer

    def _exchange(
        self, applicants: Sequence[Applicant], wanted: Sequence[int], allowance: Allowance
    ) -> list[ShadowRequest | Refusal]:
        """One exchange: states to run on, hits, and blocks to go on from these."""
        lease = self._supply.lease(self._states_to_start(applicants), wanted, allowance)
        admits = [self._request(one, allowance) for one in applicants]
        answers = self._supply.exchange([*lease, *admits], allowance)
        of_lease, of_admits = answers[: len(lease)], answers[len(lease) :]
        no_state = next((one for one in of_lease if isinstance(one, Refusal)), None)
        return [
            self._let_in(admit, answer, one.waiting, no_state)
            for admit, answer, one in zip(admits, of_admits, applicants, strict=True)
        ]

    def _let_in(
        self, admit: AdmitRequest, answer: Answer, waiting: Waiting, no_state: Refusal | None
    ) -> ShadowRequest | Refusal:
        if isinstance(answer, Refusal):
            return answer
        assert isinstance(answer, Admission), f"an admission was answered with {answer}"
        if no_state is None:
            return ShadowRequest(self._plan, self._idle.stock, admit.handle, answer, waiting)
        self._ledger.free(admit.handle)
        return replace(no_state, hit_tokens=answer.hit_tokens, longest_tokens=answer.longest_tokens)

    def _request(self, applicant: Applicant, allowance: Allowance) -> AdmitRequest:
        """What is needed, and as much of what is allowed as the request can use."""
        settings, waiting = self._settings, applicant.waiting
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
            keep_free_blocks=applicant.keep_free,
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

    def _states_to_start(self, applicants: Sequence[Applicant]) -> list[int]:
        """Rows of states that these requests and those pending start with, by kind."""
        num_starting = len(
            self._roster.pending.keys() | {one.waiting.request_id for one in applicants}
        )
        rows = [0] * len(self._plan.kinds)
        for index, is_stocked in enumerate(self._idle.stock.stocks):
            if is_stocked:
                spec = self._plan.spec_of_kind(KindId(index))
                rows[index] = num_starting * (1 + spec.num_speculative_blocks)
        return rows

    def _states_wanted(
        self, applicants: Sequence[Applicant], coming: Sequence[int] = ()
    ) -> list[int]:
        """Rows of states that will be needed soon, too: a prompt of several chunks runs on two.

        ``coming`` are prompts that will come to the ends of blocks together.
        """
        soon = self._supply.states_soon(coming)
        rows = [*map(operator.add, self._states_to_start(applicants), soon)]
        for index, is_stocked in enumerate(self._idle.stock.stocks):
            if is_stocked:
                block_tokens = self._plan.spec_of_kind(KindId(index)).block_tokens
                rows[index] += sum(one.waiting.num_tokens > block_tokens for one in applicants)
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

    def _blocks_of_lives(
        self, applicants: Sequence[Applicant], state_rows: Sequence[int]
    ) -> list[int]:
        """As many blocks by group as these admissions take at most, luxury included."""
        settings, stock = self._settings, self._idle.stock
        besides = settings.lookahead_tokens + settings.ahead_tokens
        slots = [one.waiting.num_tokens + besides for one in applicants]
        rows = []
        for index, is_stocked in enumerate(stock.stocks):
            if is_stocked:
                rows.append(max(state_rows[index] - stock.num_rows(KindId(index)), 0))
            else:
                block_tokens = self._plan.spec_of_kind(KindId(index)).block_tokens
                rows.append(sum(-(-num // block_tokens) for num in slots))
        return self._supply.by_group(rows)


def _may_be_turned(answer: ShadowRequest | Refusal, allowance: Allowance) -> bool:
    """Whether a refusal might be none with less luxury.

    Whoever waits for a state of this step waits; whoever never fits does not without luxury either.
    """
    if not isinstance(answer, Refusal) or answer.cause is RefusalCause.SAME_STEP:
        return False
    return bool(allowance) or answer.cause is RefusalCause.SHORTAGE
