"""How an engine's blocks come from the pool.

States come from the engine's stock (see :mod:`kvquarry_client.stock`), attention blocks from what
was granted to each request. Where memory allows, more is asked for than is missing, in the same
exchange, so that most steps ask for nothing: attention blocks ahead for everybody who runs low,
and as many states as will be needed at once.

That is luxury. Where memory is plenty it costs nobody anything; where it is not, it stays within
a small share of what could be evicted (see :mod:`kvquarry_core.luxury`), and whoever asks while
more lies idle first gives all of that back. All of it goes back before anybody goes without.
"""

from collections.abc import Callable, Sequence

from kvquarry_client.allowance import Abundance, Allowance
from kvquarry_client.foresight import Foresight
from kvquarry_client.idle import IdleBlocks
from kvquarry_client.ledger import Ledger
from kvquarry_client.records import ShadowRequest
from kvquarry_client.refusals import RefusalMemo
from kvquarry_client.roster import Roster
from kvquarry_client.scheduling import Allocation, ShadowSettings
from kvquarry_core.ids import KindId
from kvquarry_core.messages import (
    AheadGrant,
    AheadRequest,
    Answer,
    Ask,
    Grant,
    GrowRequest,
    LeaseRequest,
    moves_of,
)
from kvquarry_core.plan import Plan
from kvquarry_core.relocation import Move


class Supply:
    """Asks the pool for what is needed and, where memory allows, for what will be."""

    def __init__(  # noqa: PLR0913 - parts of one shadow, keyword-only
        self,
        plan: Plan,
        ledger: Ledger,
        *,
        roster: Roster,
        idle: IdleBlocks,
        refusals: RefusalMemo,
        settings: ShadowSettings,
        on_moves: Callable[[Sequence[Move]], None],
    ) -> None:
        """``on_moves`` hears of blocks that moved."""
        self._plan = plan
        self._ledger = ledger
        self._roster = roster
        self._idle = idle
        self._refusals = refusals
        self._on_moves = on_moves
        self._stock = idle.stock
        self._abundance = Abundance(plan, ledger, ahead_tokens=settings.ahead_tokens)
        #: A row ahead is so many tokens at least.
        self.ahead_block_tokens = self._abundance.block_tokens
        self._foresight = Foresight(plan, roster, num_steps=settings.num_overlapping_steps)
        self.nothing_allowed = self._abundance.within([0] * len(plan.classes), 1)

    def secure(self, request: ShadowRequest, allocation: Allocation) -> bool:
        """See that a running request has the rows it needs; False where they are not to be had."""
        if request.has_enough(allocation):
            return True
        soon = self.states_soon()
        allowance = self.allow(self.by_group([*map(max, request.missing(allocation), soon)]))
        self._acquire(request, allocation, soon, allowance)
        if not request.has_enough(allocation) and (self._idle.return_all() or allowance):
            self._acquire(request, allocation, soon, self.nothing_allowed)
        return request.has_enough(allocation)

    def _acquire(
        self,
        request: ShadowRequest,
        allocation: Allocation,
        soon: Sequence[int],
        allowance: Allowance,
    ) -> None:
        """Ask for the rows that a request lacks and for what is allowed besides."""
        missing = request.missing(allocation)
        asks = self.lease(self._in_all(missing), soon, allowance)
        grow = [
            0 if is_stocked else rows
            for rows, is_stocked in zip(missing, self._stock.stocks, strict=True)
        ]
        if any(grow):
            asks.append(GrowRequest(request.handle, self.by_group(grow)))
        self.exchange(asks, allowance, request)

    # What may be asked for besides.

    def states_soon(self, coming: Sequence[int] = ()) -> list[int]:
        """Rows of states, by kind, that running requests will need besides those in use.

        Those of the lengths ``coming`` are about to run, too.
        """
        if not self._abundance.is_on:
            return [0] * len(self._plan.kinds)
        return self._foresight.states(self._stock.stocks, coming)

    def allow(self, by_group: Sequence[int]) -> Allowance:
        """What may be had besides so many blocks; what lies idle beyond that goes back first.

        Nothing while somebody waits for memory.
        """
        if self._refusals.is_pressing:
            self._idle.cut_down([0] * len(self._plan.classes))
            return self.nothing_allowed
        if self._abundance.is_plenty(by_group):
            return self._abundance.without_bounds()
        most_idle = self._abundance.most_idle()
        if self._abundance.is_on:
            self._idle.cut_down(most_idle)
        return self._abundance.within(most_idle, 1 + len(self._roster.live))

    def is_plenty(self, by_group: Sequence[int], kept_free: Sequence[int] = ()) -> bool:
        """Whether free memory holds so many blocks and more, and nobody waits for any.

        What is kept free for others, by class, comes on top.
        """
        return not self._refusals.is_pressing and self._abundance.is_plenty(by_group, kept_free)

    def may_keep(self) -> bool:
        """Whether all that lies idle may stay so."""
        if self._refusals.is_pressing:
            return False
        if self._abundance.is_plenty([1] * len(self._plan.groups)):
            return True
        return self._abundance.is_on and self._idle.is_within(self._abundance.most_idle())

    # Asking.

    def lease(
        self, needed: Sequence[int], wanted: Sequence[int], allowance: Allowance
    ) -> list[Ask]:
        """States for the stock, or nothing to ask.

        Args:
            needed: Rows that must be in stock, by kind.
            wanted: Rows that had better be there.
            allowance: What may be had beyond those needed.
        """
        rows = [0] * len(needed)
        for index, is_stocked in enumerate(self._stock.stocks):
            if is_stocked:
                most = needed[index] + allowance.state_rows[index]
                in_all = max(needed[index], min(wanted[index], most))
                rows[index] = max(in_all - self._stock.num_rows(KindId(index)), 0)
        return [LeaseRequest(self.by_group(rows))] if any(rows) else []

    def exchange(
        self, asks: Sequence[Ask], allowance: Allowance, growing: ShadowRequest | None = None
    ) -> list[Answer]:
        """Ask, and share out what was granted to the stock and to who grows.

        Besides, everybody who runs low is granted blocks ahead, as far as that is allowed.
        """
        low = self._running_low(allowance.rows_ahead)
        ahead = [AheadRequest([one.handle for one, _ in low], [rows for _, rows in low])]
        asks_of_all = [*asks, *(ahead if low else ())]
        ask_pool = self._ledger.ask_first if allowance.is_plenty else self._ledger.ask
        answers = ask_pool(asks_of_all)
        for ask, answer in zip(asks_of_all, answers, strict=True):
            moves = moves_of(answer)
            if moves:
                self._on_moves(moves)
            if isinstance(answer, AheadGrant):
                for (one, _), grant in zip(low, answer.grants, strict=True):
                    one.unspent.add(grant)
            elif isinstance(answer, Grant) and isinstance(ask, LeaseRequest):
                self._stock.add_grant(answer)
            elif isinstance(answer, Grant) and growing is not None:
                growing.unspent.add(answer)
        return answers[: len(asks)]

    def _running_low(self, rows_ahead: int) -> list[tuple[ShadowRequest, int]]:
        """Requests that will ask for attention blocks soon, and how many they are to get."""
        if not rows_ahead:
            return []
        running = self._roster.live.values()
        pairs = (
            (one, one.rows_to_ask_ahead(rows_ahead)) for one in running if one.runs_low(rows_ahead)
        )
        low = [(one, rows) for one, rows in pairs if rows]
        if rows_ahead == 1:
            # There is not one for everybody: whoever needs it first asks first.
            low.sort(key=lambda pair: pair[0].num_slots_left())
        return low

    def _in_all(self, missing: Sequence[int]) -> list[int]:
        """Rows that must be in stock so that none are missing, by kind."""
        return [
            rows + self._stock.num_rows(KindId(kind)) if rows else 0
            for kind, rows in enumerate(missing)
        ]

    def by_group(self, rows_of_kinds: Sequence[int]) -> list[int]:
        """Blocks by group for so many rows of every kind."""
        wanted = [0] * len(self._plan.groups)
        for rows, members in zip(rows_of_kinds, self._plan.kinds, strict=True):
            for group in members:
                wanted[group] = rows
        return wanted
