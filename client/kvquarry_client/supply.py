"""How an engine's blocks come from the pool and go back to it.

States come from the engine's stock (see :mod:`kvquarry_client.stock`), attention blocks from what
was granted to each request. Where memory is plenty, more is asked for than is missing, in the same
exchange, so that most steps ask for nothing: attention blocks ahead for everybody who runs low,
twice the states when many requests come to a block boundary together, and nothing goes back that
will be needed soon.

That is luxury, and costs nobody anything: whoever asks while memory is not plenty first gives
back all that lies idle, so that the pool evicts nothing it could have kept.
"""

from collections.abc import Callable, Collection, Iterable, Sequence

from kvquarry_client.ledger import Ledger
from kvquarry_client.records import ShadowRequest
from kvquarry_client.refusals import RefusalMemo
from kvquarry_client.scheduling import Allocation
from kvquarry_client.stock import StateStock
from kvquarry_core.group_rules import rule_for
from kvquarry_core.ids import KindId
from kvquarry_core.messages import (
    AdmitRequest,
    AheadGrant,
    AheadRequest,
    Answer,
    Ask,
    Grant,
    GrowRequest,
    LeaseRequest,
    Refusal,
    moves_of,
)
from kvquarry_core.plan import Plan
from kvquarry_core.prefix_index import Row
from kvquarry_core.relocation import Move


class Supply:
    """What the engine has beyond what its requests use, and how it gets more."""

    def __init__(
        self,
        plan: Plan,
        ledger: Ledger,
        refusals: RefusalMemo,
        on_moves: Callable[[Sequence[Move]], None],
        *,
        ahead_tokens: int,
    ) -> None:
        """``refusals`` are forgotten when something goes back; ``on_moves`` hears of moves."""
        self.stock = StateStock(plan)
        self._plan = plan
        self._ledger = ledger
        self._refusals = refusals
        self._on_moves = on_moves
        self._rows_ahead = max(
            (
                -(-ahead_tokens // group.block_tokens)
                for group in plan.groups
                if rule_for(group).grows
            ),
            default=0,
        )
        # Rows of states leased in this step, by kind.
        self._num_leased = [0] * len(plan.kinds)

    # Asking.

    def admit(
        self, admit: AdmitRequest, *, num_waiting: int, running: Collection[ShadowRequest]
    ) -> tuple[Answer, Refusal | None]:
        """Ask for an admission and, in the same exchange, for states to run the request on.

        Args:
            admit: What is asked.
            num_waiting: Requests that were or are being looked up, and take states of the stock.
            running: Those that hold blocks.

        Returns:
            The answer, and the refusal of the states if there are none to be had.
        """
        is_plenty = self._make_way(self._blocks_of_prompt(admit), running)
        asks = self._lease(self._rows_for_admissions(num_waiting, is_plenty=is_plenty))
        place = len(asks)
        low = self._running_low(running) if is_plenty else []
        answers = self._exchange([*asks, admit, *self._ahead(low)], low)
        no_state = next((one for one in answers[:place] if isinstance(one, Refusal)), None)
        return answers[place], no_state

    def acquire(
        self,
        request: ShadowRequest,
        allocation: Allocation,
        running: Collection[ShadowRequest],
    ) -> None:
        """Ask for the rows that a request lacks and, where memory is plenty, for more.

        Args:
            request: Who needs them.
            allocation: What for.
            running: Those that hold blocks.
        """
        missing = request.missing(allocation.num_tokens, allocation.num_slots)
        is_plenty = self._make_way(self._by_group(missing), running)
        if not is_plenty:
            # Its own grant may have gone back, too.
            missing = request.missing(allocation.num_tokens, allocation.num_slots)
        states, grow = self._split(missing)
        if is_plenty:
            states = [
                rows + leased if rows else 0
                for rows, leased in zip(states, self._num_leased, strict=True)
            ]
        low = self._running_low(running) if is_plenty else []
        asks = [*self._lease(states), *self._ahead(low)]
        if any(grow):
            asks.append(GrowRequest(request.handle, self._by_group(grow)))
        for ask, answer in zip(asks, self._exchange(asks, low), strict=True):
            if isinstance(ask, GrowRequest) and isinstance(answer, Grant):
                request.add_grant(answer)

    def _exchange(self, asks: Sequence[Ask], low: Sequence[ShadowRequest]) -> list[Answer]:
        """Ask, and share out what was granted to the stock and ahead."""
        answers = self._ledger.ask(asks)
        for ask, answer in zip(asks, answers, strict=True):
            moves = moves_of(answer)
            if moves:
                self._on_moves(moves)
            if isinstance(ask, LeaseRequest) and isinstance(answer, Grant):
                self.stock.add_grant(answer)
            elif isinstance(answer, AheadGrant):
                for one, grant in zip(low, answer.grants, strict=True):
                    one.add_grant(grant)
        return answers

    def _split(self, rows_of_kinds: Sequence[int]) -> tuple[list[int], list[int]]:
        """Rows by kind: those that come from the stock, and those that are granted to a request."""
        columns = list(zip(rows_of_kinds, self.stock.stocks, strict=True))
        stocked = [rows if stocks else 0 for rows, stocks in columns]
        return stocked, [0 if stocks else rows for rows, stocks in columns]

    def _lease(self, rows_of_kinds: Sequence[int]) -> list[Ask]:
        """States for the stock, or nothing to ask."""
        if not any(rows_of_kinds):
            return []
        for kind, num_rows in enumerate(rows_of_kinds):
            self._num_leased[kind] += num_rows
        return [LeaseRequest(self._by_group(rows_of_kinds))]

    def _ahead(self, low: Sequence[ShadowRequest]) -> list[Ask]:
        """Attention blocks for everybody who runs low, or nothing to ask."""
        if not low:
            return []
        return [AheadRequest([one.handle for one in low], [self._rows_ahead] * len(low))]

    def _rows_for_admissions(self, num_waiting: int, *, is_plenty: bool) -> list[int]:
        """Rows the stock lacks for so many requests to start, by kind.

        A prompt of several chunks runs on two states: where memory is plenty, the second is there
        from the beginning.
        """
        rows = [0] * len(self._plan.kinds)
        for index, stocks in enumerate(self.stock.stocks):
            if stocks:
                kind = KindId(index)
                each = 1 + self._plan.spec_of_kind(kind).num_speculative_blocks + is_plenty
                rows[index] = max(num_waiting * each - self.stock.num_rows(kind), 0)
        return rows

    def _blocks_of_prompt(self, admit: AdmitRequest) -> list[int]:
        """As many blocks by group as an admission takes at most."""
        num_slots = admit.num_tokens + admit.lookahead_tokens
        wanted = [-(-num_slots // spec.block_tokens) for spec in self._plan.groups]
        for kind, members in enumerate(self._plan.kinds):
            if self.stock.stocks[kind]:
                for group in members:
                    wanted[group] = 2
        return wanted

    def _running_low(self, running: Iterable[ShadowRequest]) -> list[ShadowRequest]:
        """Requests that will ask for attention blocks soon."""
        return [one for one in running if one.runs_low(self._rows_ahead // 2)]

    def _by_group(self, rows_of_kinds: Sequence[int]) -> list[int]:
        """Blocks by group for so many rows of every kind."""
        wanted = [0] * len(self._plan.groups)
        for rows, members in zip(rows_of_kinds, self._plan.kinds, strict=True):
            for group in members:
                wanted[group] = rows
        return wanted

    # Giving back.

    def begin_step(self, unspent: Iterable[ShadowRequest]) -> None:
        """A step starts: unspent grants of admissions go back, and states that lay idle for long.

        Where memory is plenty the grants stay: the next chunks take them.
        """
        self._num_leased = [0] * len(self._plan.kinds)
        left = [one for one in unspent if one.has_unspent()]
        if left and not self._is_plenty([1] * len(self._plan.groups)):
            self._settle(left)
        self._give_back(self.stock.take_idle())

    def return_luxuries(self, running: Iterable[ShadowRequest]) -> bool:
        """Give back what lies idle, since memory is short; False where there was nothing."""
        unspent = [one for one in running if one.has_unspent()]
        self._settle(unspent)
        idle = self.stock.take_all()
        self._give_back(idle)
        return bool(unspent or idle)

    def return_idle_states(self) -> None:
        """Give back the states that nobody uses, unless they may be kept."""
        if not self._rows_ahead:
            self._give_back(self.stock.take_all())

    def return_all_states(self) -> None:
        """Give back the states that nobody uses: nobody is left to use them."""
        self._give_back(self.stock.take_all())

    def _make_way(self, by_group: Sequence[int], running: Iterable[ShadowRequest]) -> bool:
        """Before an ask for so many blocks: see that no content has to go for what lies idle.

        Returns:
            Whether memory is plenty.
        """
        if self._is_plenty(by_group):
            return True
        if self._rows_ahead:
            self.return_luxuries(running)
        return False

    def _is_plenty(self, by_group: Sequence[int]) -> bool:
        """Whether luxury is wanted, and free memory holds so many blocks and more."""
        if not self._rows_ahead:
            return False
        demand = [0] * len(self._plan.classes)
        for size_class, num_blocks in zip(self._plan.class_of_group, by_group, strict=True):
            demand[size_class] += num_blocks
        return self._ledger.free_memory().leaves_reserve(self._plan, demand)

    def _settle(self, unspent: Iterable[ShadowRequest]) -> None:
        for request in unspent:
            request.return_unspent()
            self._ledger.settle(request.handle)
            self._refusals.clear()

    def _give_back(self, idle: Iterable[tuple[KindId, list[Row]]]) -> None:
        for kind, rows in idle:
            columns = zip(*rows, strict=True)
            for group, blocks in zip(self._plan.kinds[kind], columns, strict=True):
                self._ledger.give_back(group, blocks)
            self._refusals.clear()
