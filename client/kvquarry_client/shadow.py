"""The client's own copy of its attachment's accounting.

It answers what a scheduler asks at every step, and asks the pool only for what it cannot know:
whether a waiting request hits and fits (one exchange), and blocks beyond those granted. It spends
what it was granted; it never chooses a block.

A request in the shadow::

    lookup   -> admission pending     touched and granted, nothing spent
    allocate -> live                  spends; asks for more when grant and stock do not suffice
    begin_step                        pending admissions nobody allocated go back, and so does
                                      what was granted with an admission and not spent, unless
                                      memory allows to keep them
    free     -> gone

Who is in which part of life is in :mod:`kvquarry_client.roster`, waiting requests are in
:mod:`kvquarry_client.admissions`, how blocks are asked for and go back in
:mod:`kvquarry_client.supply` and :mod:`kvquarry_client.idle`.
"""

from collections.abc import Iterable, Sequence

from kvquarry_client.admissions import Admissions
from kvquarry_client.commits import Commits
from kvquarry_client.empty_slots import EmptySlots
from kvquarry_client.entrance import Entrance
from kvquarry_client.idle import IdleBlocks
from kvquarry_client.ledger import Ledger
from kvquarry_client.orders import WorkerOrders
from kvquarry_client.own_books import digest_of_shadow
from kvquarry_client.records import Dropped, ShadowRequest
from kvquarry_client.refusals import RefusalMemo
from kvquarry_client.renames import Renames
from kvquarry_client.roster import Roster
from kvquarry_client.scheduling import Allocation, Committed, Lookup, ShadowSettings, Waiting
from kvquarry_client.supply import Supply
from kvquarry_core.ids import BlockHash, BlockId, Handle
from kvquarry_core.messages import Pinned, PinRefusal, PinRequest
from kvquarry_core.plan import Plan
from kvquarry_core.relocation import Move
from kvquarry_core.retention import Landmarks

#: How often refusals are forgotten where something was pinned.
_STEPS_PER_LAPSE = 64


class Shadow:
    """One attachment's requests, tables and grants. One scheduler calls it."""

    def __init__(self, plan: Plan, ledger: Ledger, settings: ShadowSettings) -> None:
        self.plan = plan
        self.ledger = ledger
        self._settings = settings
        self._num_steps = 0
        self._has_pinned = False
        self._roster = Roster()
        self._refusals = RefusalMemo()
        self._orders = WorkerOrders(plan)
        self._commits = Commits(plan, ledger, settings.checkpoints)
        self._idle = IdleBlocks(plan, ledger, self._roster, self._refusals, settings)
        self._stocks = self._idle.stock.stocks
        self._supply = Supply(
            plan,
            ledger,
            roster=self._roster,
            idle=self._idle,
            refusals=self._refusals,
            settings=settings,
            on_moves=self._rename,
        )
        entrance = Entrance(
            plan,
            ledger,
            roster=self._roster,
            idle=self._idle,
            supply=self._supply,
            settings=settings,
        )
        self._admissions = Admissions(
            plan,
            entrance,
            roster=self._roster,
            idle=self._idle,
            supply=self._supply,
            refusals=self._refusals,
            settings=settings,
        )
        ledger.tell_empty_slots(EmptySlots(plan, self._roster, self._idle.stock).count)
        # Those started in this step who were granted more than they spent.
        self._to_settle: dict[Handle, ShadowRequest] = {}

    # Admission.

    def lookup(self, waiting: Waiting, next_in_line: Iterable[Waiting] = ()) -> Lookup:
        """The longest hit of a waiting request; touches it and holds blocks for its first chunk.

        A refusal is remembered and not asked for again until something changed. If it comes to an
        exchange, those who will probably be looked up next in this step are asked for, too.
        """
        return self._admissions.lookup(waiting, next_in_line)

    def allocate_first(
        self, waiting: Waiting, allocation: Allocation, *, keep_free: bool
    ) -> ShadowRequest | None:
        """Give a waiting request its first blocks, or None where they are not to be had.

        Args:
            waiting: The request, looked up before.
            allocation: How far its first chunk goes.
            keep_free: Whether others run, for whom ``keep_free_blocks`` must stay free.
        """
        request = self._admissions.admitted(waiting, keep_free=keep_free)
        if request is None or not self._extend(request, allocation):
            return None
        self._roster.start(waiting, allocation)
        if request.unspent:
            self._to_settle[request.handle] = request
        return request

    def find_waiting(self, request_id: str) -> ShadowRequest | None:
        """A request that was looked up and holds blocks, but was not given any, or None."""
        return self._roster.pending.get(request_id)

    # Running.

    def find(self, request_id: str) -> ShadowRequest | None:
        """A request that holds blocks, or None."""
        return self._roster.live.get(request_id)

    def is_quiet(self, request: ShadowRequest, num_slots: int, num_processed: int) -> bool:
        """Whether a running request's step needs nothing: neither allocate nor commit has work."""
        return request.is_quiet(num_slots, num_processed, self._settings.checkpoints)

    def allocate(self, request: ShadowRequest, allocation: Allocation) -> bool:
        """Give a running request the blocks its next tokens need; False where there are none."""
        self._drop(request, request.retire(allocation.num_processed))
        if not self._extend(request, allocation):
            return False
        self._roster.goes_on(request, allocation)
        return True

    def retire(self, request_id: str, num_processed: int) -> None:
        """Give up what nobody reads any more once ``num_processed`` tokens were processed."""
        request = self._roster.live.get(request_id)
        if request is not None:
            self._drop(request, request.retire(num_processed))

    def commit(
        self,
        request_id: str,
        hashes: Sequence[BlockHash],
        num_tokens: int,
        landmarks: Landmarks,
    ) -> list[Committed]:
        """Make the full blocks of the first ``num_tokens`` tokens findable.

        Args:
            request_id: A live request; others have nothing to commit.
            hashes: Hashes at the plan's ``hash_tokens``.
            num_tokens: Tokens whose content is final, this step's included.
            landmarks: Where its text is known to be gone on from; the same object where they are
                those of last time is the fastest.

        Returns:
            For every kind with new commits, the positions committed.
        """
        request = self._roster.live.get(request_id)
        if request is None:
            return []
        committed = self._commits.commit(request, hashes, num_tokens, landmarks)
        for one in committed:
            self._admissions.note_committed(one.names)
        return committed

    # The end of a request.

    def pin(self, request: PinRequest) -> Pinned | PinRefusal:
        """Keep the longest cached prefix of some text for a while; one exchange."""
        self._has_pinned = True
        [answer] = self.ledger.ask([request])
        assert isinstance(answer, Pinned | PinRefusal), f"a pin was answered with {answer}"
        return answer

    def unpin(self, pin_id: str) -> None:
        """End a pin, if there is one of this name."""
        self.ledger.unpin(pin_id)
        self._refusals.clear()

    def free(self, request_id: str) -> None:
        """A request is over, wherever it stood."""
        handle = self.detach(request_id)
        if handle is not None:
            self.free_handle(handle)

    def detach(self, request_id: str) -> Handle | None:
        """Forget a request but keep its blocks until :meth:`free_handle`: a step may write them."""
        self._refusals.drop(request_id)
        request = self._roster.detach(request_id)
        if request is None:
            return None
        self._to_settle.pop(request.handle, None)
        return request.handle

    def free_handle(self, handle: Handle) -> None:
        """Free the blocks of a detached request."""
        self._roster.detached.pop(handle).recycle()
        self.ledger.free(handle)
        self._idle.trim()
        self._refusals.clear()

    # Steps.

    def begin_step(self) -> None:
        """A step starts: unspent grants go back, states of the last step may be hit."""
        self._admissions.begin_step()
        self._expect_lapses()
        self._settle_admissions()
        self._idle.return_old_states()
        self._idle.trim()
        if self._commits.take_has_states() or self._settings.moves_blocks:
            self.ledger.begin_step()
        self._compare_books()

    def _expect_lapses(self) -> None:
        """Where something was pinned: memory goes back unheard when a pin's time is over."""
        if self._has_pinned and not self._num_steps % _STEPS_PER_LAPSE:
            self._refusals.clear()

    def _settle_admissions(self) -> None:
        """What the last step's admissions left unspent; the next chunks take it where it may stay.

        Where it may not, each chunk asks for its own: its length is known by then.
        """
        unspent = [one for one in self._to_settle.values() if one.unspent]
        self._to_settle.clear()
        if unspent and not self._supply.may_keep():
            self._idle.settle(unspent)

    def _compare_books(self) -> None:
        """Now and then, where that is wanted: does the pool keep the same books?"""
        self._num_steps += 1
        check_steps = self._settings.check_steps
        if check_steps and not self._num_steps % check_steps:
            stock = self._idle.stock
            self.ledger.compare_books(digest_of_shadow(self.plan, [*self._roster], stock))

    def end_step(self) -> None:
        """A step was planned, or processed: the pool hears of it, at once where nobody runs."""
        if self._roster:
            self.ledger.end_step()
        else:
            self.ledger.flush()

    def reset_cache(self) -> bool:
        """Forget all cached content; False while requests hold blocks."""
        self.begin_step()
        self._admissions.let_go()
        self._idle.trim()
        self._refusals.clear()
        return self.ledger.reset_cache()

    # What the workers are told.

    def take_blocks_to_zero(self) -> list[list[BlockId]]:
        """By size class, blocks spent since the last call whose bytes were last of another class.

        States are not among them: they are written whole before anybody reads them.
        """
        return self._orders.take_blocks_to_zero()

    def take_moves(self) -> list[Move]:
        """Blocks moved since the last call, in order: their bytes are copied before all else."""
        return self._orders.take_moves()

    def tell(self, block_ids: tuple[list[BlockId], ...]) -> tuple[list[BlockId], ...]:
        """Ids that go into the step's plan: those that move until it is sent are renamed there."""
        if self._settings.moves_blocks:
            self._orders.tell(block_ids)
        return block_ids

    def _rename(self, moves: Sequence[Move]) -> None:
        """The pool moved blocks; whoever knows them calls them by their new ids from now on."""
        renames = Renames(self.plan, moves)
        self._roster.rename(renames)
        self._idle.stock.rename(renames)
        self._orders.rename(renames, moves)

    # Spending.

    def _extend(self, request: ShadowRequest, allocation: Allocation) -> bool:
        if not self._supply.secure(request, allocation):
            self._idle.return_all()
            return False
        for spent in request.spend(allocation):
            if not self._stocks[spent.kind]:
                for group in self.plan.kinds[spent.kind]:
                    self.ledger.take(request.handle, group, spent.num_rows)
                self._orders.zero(self.plan.class_of_kind(spent.kind), spent.dirty)
        return True

    def _drop(self, request: ShadowRequest, retired: Iterable[Dropped]) -> None:
        for one in retired:
            columns = zip(*one.rows, strict=True)
            for group, blocks in zip(self.plan.kinds[one.kind], columns, strict=True):
                self.ledger.drop(request.handle, group, blocks)
            self._refusals.clear()
        self._idle.trim()
