"""What lies idle with the engine, and how it goes back to the pool.

Idle are states in stock, blocks granted ahead, and what was set aside for a waiting request that
was looked up in an earlier step.
"""

from collections.abc import Iterable, Sequence

from kvquarry_client.ledger import Ledger
from kvquarry_client.records import ShadowRequest
from kvquarry_client.refusals import RefusalMemo
from kvquarry_client.roster import Roster
from kvquarry_client.scheduling import ShadowSettings
from kvquarry_client.stock import StateStock
from kvquarry_core.ids import KindId
from kvquarry_core.plan import Plan
from kvquarry_core.prefix_index import Row


class IdleBlocks:
    """Counts them and gives them back; refusals are forgotten whenever it does."""

    def __init__(
        self,
        plan: Plan,
        ledger: Ledger,
        roster: Roster,
        refusals: RefusalMemo,
        settings: ShadowSettings,
    ) -> None:
        self._keeps_states = settings.ahead_tokens > 0
        self.stock = StateStock(plan)
        self._plan = plan
        self._ledger = ledger
        self._roster = roster
        self._refusals = refusals

    def __bool__(self) -> bool:
        """Whether anything is idle."""
        unspent = any(one.unspent for one in self._roster.live.values())
        return unspent or bool(self._roster.kept or self.stock)

    def is_within(self, most_idle: Sequence[int]) -> bool:
        """Whether no more than so many blocks of each class are idle."""
        return not any(self._beyond(most_idle))

    def cut_down(self, most_idle: Sequence[int]) -> None:
        """Give back what lies idle beyond so many blocks of each class.

        What waiting requests keep goes first; then the states that lay in stock for longest; then
        what was granted ahead to those who have most of it.
        """
        if self._roster.kept and not self.is_within(most_idle):
            self.let_go(list(self._roster.kept))
        beyond = self._beyond(most_idle)
        if any(beyond):
            self._give_back(self.stock.take_beyond(beyond))
            by_size = sorted(self._roster.live.values(), key=lambda one: -one.unspent.num_blocks)
            for request in by_size:
                if not request.unspent.relieves(beyond):
                    return
                self.settle([request])

    def _beyond(self, most_idle: Sequence[int]) -> list[int]:
        """What is idle beyond so many blocks, by class."""
        idle = [0] * len(self._plan.classes)
        for request in self._roster.live.values():
            request.unspent.count_blocks(idle)
        for request_id in self._roster.kept:
            self._roster.pending[request_id].unspent.count_blocks(idle)
        self.stock.count_blocks(idle)
        return [max(num - most, 0) for num, most in zip(idle, most_idle, strict=True)]

    def return_all(self) -> bool:
        """Give back everything, since memory is short; False where there was nothing."""
        unspent = [one for one in self._roster.live.values() if one.unspent]
        num_kept = self.let_go(list(self._roster.kept))
        self.settle(unspent)
        states = self.stock.take_all()
        self._give_back(states)
        return bool(num_kept or unspent or states)

    def settle(self, unspent: Iterable[ShadowRequest]) -> None:
        """Requests give back what they were granted and have not spent."""
        for request in unspent:
            request.unspent.clear()
            self._ledger.settle(request.handle)
            self._refusals.clear()

    def let_go(self, request_ids: Iterable[str]) -> int:
        """Waiting requests give up what they were admitted with; returns how many did."""
        num_gone = 0
        for request_id in request_ids:
            self._ledger.free(self._roster.forget_pending(request_id).handle)
            self._refusals.clear()
            num_gone += 1
        return num_gone

    def return_old_states(self) -> None:
        """Call once a step: states that lay in stock for long go back."""
        self._give_back(self.stock.take_idle())

    def return_states(self) -> None:
        """Give back the states that nobody uses."""
        self._give_back(self.stock.take_all())

    def trim(self) -> None:
        """Give back the states that nobody uses, unless somebody runs and they may be kept."""
        if not (self._keeps_states and self._roster):
            self.return_states()

    def _give_back(self, idle: Iterable[tuple[KindId, list[Row]]]) -> None:
        for kind, rows in idle:
            columns = zip(*rows, strict=True)
            for group, blocks in zip(self._plan.kinds[kind], columns, strict=True):
                self._ledger.give_back(group, blocks)
            self._refusals.clear()
