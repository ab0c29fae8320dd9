"""Waiting requests: what each hits and whether it fits is asked once, and what it gets is held.

Where memory is plenty, those who are next in line are asked for in the same exchange. What a
request was admitted with is held until it is given its first blocks. If the scheduler does not do
that in the same step, it is held for one step more where memory allows. It is asked for again
before that only if content has become findable that the request could hit.
"""

import operator
from collections.abc import Iterable, Sequence
from itertools import chain

from kvquarry_client.company import Company
from kvquarry_client.entrance import Applicant, Entrance
from kvquarry_client.fresh_content import FreshContent
from kvquarry_client.idle import IdleBlocks
from kvquarry_client.records import ShadowRequest, junction
from kvquarry_client.refusals import RefusalMemo, RememberedRefusal
from kvquarry_client.roster import Roster
from kvquarry_client.scheduling import Lookup, ShadowSettings, Waiting
from kvquarry_client.supply import Supply
from kvquarry_core.ids import BlockHash, BlockId
from kvquarry_core.messages import Refusal, RefusalCause
from kvquarry_core.plan import Plan
from kvquarry_core.reserve import DecodeReserve


class Admissions:
    """Looks waiting requests up, and remembers what was said."""

    def __init__(  # noqa: PLR0913 - parts of one shadow, keyword-only
        self,
        plan: Plan,
        entrance: Entrance,
        *,
        roster: Roster,
        idle: IdleBlocks,
        supply: Supply,
        refusals: RefusalMemo,
        settings: ShadowSettings,
    ) -> None:
        self._plan = plan
        self._entrance = entrance
        self._roster = roster
        self._idle = idle
        self._supply = supply
        self._refusals = refusals
        self._settings = settings
        self._reserve = DecodeReserve(plan)
        self._company = Company()
        self._fresh = FreshContent()
        # How much had been committed when those pending were looked up, in this step or the last.
        self._looked_up_at: dict[str, int] = {}

    def lookup(self, waiting: Waiting, next_in_line: Iterable[Waiting]) -> Lookup:
        """The longest hit of a waiting request; touches it and holds blocks for its first chunk."""
        keep_free = self._keep_free(waiting) if self._roster.live else ()
        remembered = self._refusals.find(waiting.request_id) if self._roster.live else None
        if remembered is not None and self._holds(remembered, keep_free):
            return self._lookup_of(remembered.refusal)
        answer = self._find(waiting) or self._admit(waiting, keep_free, next_in_line)
        if isinstance(answer, Refusal):
            return self._lookup_of(answer)
        return Lookup(answer.hit_tokens, answer.junction_tokens, answer.block_ids())

    def admitted(self, waiting: Waiting, *, keep_free: bool) -> ShadowRequest | None:
        """A request that is about to be given its first blocks; None where it was refused.

        Args:
            waiting: The request, looked up before.
            keep_free: Whether others run, for whom blocks must stay free.
        """
        request = self._roster.pending.get(waiting.request_id)
        if request is not None:
            return request
        kept_free = self._keep_free(waiting) if keep_free else ()
        remembered = self._refusals.find(waiting.request_id)
        if remembered is not None and self._holds(remembered, kept_free):
            return None
        answer = self._admit(waiting, kept_free)
        return None if isinstance(answer, Refusal) else answer

    def note_committed(self, names: Sequence[BlockHash]) -> None:
        """Content became findable: whoever could hit it asks again."""
        self._refusals.note_committed(names)
        if self._roster.pending:
            self._fresh.note(names)

    def begin_step(self) -> None:
        """A step starts: what was not used goes back, unless it may be kept for this one."""
        roster = self._roster
        self._refusals.begin_step()
        self._idle.let_go(list(roster.kept))
        roster.kept.update(roster.pending)
        if roster.kept and not self._supply.may_keep():
            self.let_go()
        self._fresh.begin_step()
        self._looked_up_at = {one: self._looked_up_at[one] for one in roster.pending}

    def let_go(self) -> None:
        """Nobody is admitted any more who was not given blocks."""
        self._idle.let_go(list(self._roster.pending))

    def _find(self, waiting: Waiting) -> ShadowRequest | None:
        """What a request was admitted with, unless it could hit more by now."""
        request = self._roster.pending.get(waiting.request_id)
        if request is None:
            return None
        looked_up_at = self._looked_up_at[waiting.request_id]
        if self._fresh.is_in(waiting.hashes, since=looked_up_at):
            self._idle.let_go([waiting.request_id])
            return None
        return request

    def _admit(
        self, waiting: Waiting, keep_free: Sequence[int], next_in_line: Iterable[Waiting] = ()
    ) -> ShadowRequest | Refusal:
        entry = self._entrance.ask(
            Applicant(waiting, keep_free), self._along(waiting, next_in_line)
        )
        for applicant, other in entry.company:
            self._hold(applicant.waiting, other)
        answer = entry.answer
        if isinstance(answer, Refusal):
            if answer.cause is RefusalCause.SHORTAGE or not self._roster.pending:
                # Also the states it would have run on: next to a shortage, nobody keeps any.
                self._idle.return_states()
            self._refusals.note_waiting(answer)
            hashes = frozenset(waiting.hashes)
            remembered = RememberedRefusal(answer, keep_free, hashes)
            self._refusals.remember(waiting.request_id, remembered)
            return answer
        self._hold(waiting, answer)
        return answer

    def _hold(self, waiting: Waiting, request: ShadowRequest) -> None:
        """A request was admitted; the scheduler is going to allocate it, or not."""
        self._refusals.drop(waiting.request_id)
        self._roster.pending[waiting.request_id] = request
        self._looked_up_at[waiting.request_id] = self._fresh.num_runs
        self._company.note_found(waiting.hashes, request.hit_tokens // self._plan.hash_tokens)

    def _along(self, waiting: Waiting, next_in_line: Iterable[Waiting]) -> list[Applicant]:
        """Those who are asked for at once with a request, if memory is plenty for them."""
        line = iter(next_in_line)
        first = next(line, None)
        if first is None or not self._supply.is_plenty([1] * len(self._plan.groups)):
            return []
        company = self._company.of(waiting, chain([first], line), self._roster.pending)
        return [
            Applicant(one, self._keep_free(one, num_before=number))
            for number, one in enumerate(company, start=1)
        ]

    def _keep_free(self, waiting: Waiting, *, num_before: int = 0) -> tuple[int, ...]:
        """Blocks by class that an admission leaves to those that run, and to so many before it."""
        settings, roster = self._settings, self._roster
        align = settings.checkpoints.alignment_tokens if settings.checkpoints else 0
        num_prompts = roster.num_prompts + num_before + (0 < align < waiting.num_tokens)
        reserve = self._reserve.blocks(len(roster.live) + num_before, num_prompts)
        watermark = settings.keep_free_blocks or [0] * len(reserve)
        return tuple(map(operator.add, reserve, watermark))

    def _holds(self, remembered: RememberedRefusal, keep_free: Sequence[int]) -> bool:
        """Whether asking again is in vain.

        Where memory was short, states in stock were retired since, and may go back.
        """
        is_short = remembered.refusal.cause is RefusalCause.SHORTAGE
        holds = remembered.holds_for(keep_free) and not (is_short and self._idle.stock)
        if holds:
            self._refusals.note_waiting(remembered.refusal)
        return holds

    def _lookup_of(self, refusal: Refusal) -> Lookup:
        nothing: tuple[list[BlockId], ...] = tuple([] for _ in self._plan.groups)
        junction_tokens = junction(refusal.hit_tokens, refusal.longest_tokens)
        return Lookup(refusal.hit_tokens, junction_tokens, nothing)
