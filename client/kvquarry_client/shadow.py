"""The client's own copy of its attachment's accounting.

It answers what a scheduler asks at every step, and asks the pool only for what it cannot know:
whether a waiting request hits and fits (one exchange), and blocks beyond those granted. It spends
what it was granted; it never chooses a block.

A request in the shadow::

    lookup   -> admission pending     touched and granted, nothing spent
    allocate -> live                  spends; asks for more when grant and stock do not suffice
    begin_step                        pending admissions nobody allocated go back, and so does
                                      what was granted with an admission and not spent, unless
                                      memory is plenty
    free     -> gone

How blocks are asked for and go back is in :mod:`kvquarry_client.supply`.
"""

import itertools
import operator
from collections.abc import Iterable, Sequence
from dataclasses import replace

from kvquarry_client.ledger import Ledger
from kvquarry_client.own_books import digest_of_shadow
from kvquarry_client.records import Dropped, ShadowRequest, junction
from kvquarry_client.refusals import RefusalMemo
from kvquarry_client.renames import Renames
from kvquarry_client.scheduling import Allocation, Committed, Lookup, ShadowSettings, Waiting
from kvquarry_client.supply import Supply
from kvquarry_client.tables import ANY_NUMBER
from kvquarry_core.ids import BlockHash, BlockId, GroupId, Handle, KindId
from kvquarry_core.messages import (
    Admission,
    AdmitRequest,
    FullRows,
    Refusal,
    RefusalCause,
)
from kvquarry_core.plan import GroupKind, Plan
from kvquarry_core.relocation import Move
from kvquarry_core.reserve import DecodeReserve


class Shadow:
    """One attachment's requests, tables and grants. One scheduler calls it."""

    def __init__(self, plan: Plan, ledger: Ledger, settings: ShadowSettings) -> None:
        self.plan = plan
        self.ledger = ledger
        self._settings = settings
        self._handles = itertools.count(1)
        self._live: dict[str, ShadowRequest] = {}
        self._pending: dict[str, ShadowRequest] = {}
        self._detached: dict[Handle, ShadowRequest] = {}
        self._refusals = RefusalMemo()
        self._reserve = DecodeReserve(plan)
        self._supply = Supply(
            plan, ledger, self._refusals, self._rename, ahead_tokens=settings.ahead_tokens
        )
        self._to_settle: dict[Handle, ShadowRequest] = {}
        # Requests with chunks of their prompt ahead, and how long that is.
        self._in_prompt: dict[Handle, int] = {}
        self._to_zero: list[list[BlockId]] = [[] for _ in plan.classes]
        self._moves: list[Move] = []
        self._told: list[tuple[list[BlockId], ...]] = []
        self._committed_states = False
        self._num_steps = 0
        # A draft model gives up one hash unit, so a later request resumes that much earlier.
        self._draft_tokens = plan.hash_tokens if any(g.is_draft for g in plan.groups) else 0

    # Admission.

    def lookup(self, waiting: Waiting) -> Lookup:
        """The longest hit of a waiting request; touches it and holds blocks for its first chunk.

        A refusal is remembered and not asked for again until something changed.
        """
        request = self._pending.get(waiting.request_id)
        remembered = self._refusals.find(waiting.request_id) if self._live else None
        if request is None and remembered is None:
            answer = self._admit(waiting, self._keep_free(waiting) if self._live else ())
            if isinstance(answer, Refusal):
                return self._lookup_of(answer)
            request = answer
        if request is None:
            assert remembered is not None
            return self._lookup_of(remembered.refusal)
        return Lookup(request.hit_tokens, request.junction_tokens, request.block_ids())

    def allocate_first(
        self, waiting: Waiting, allocation: Allocation, *, keep_free: bool
    ) -> ShadowRequest | None:
        """Give a waiting request its first blocks, or None where they are not to be had.

        Args:
            waiting: The request, looked up before.
            allocation: How far its first chunk goes.
            keep_free: Whether others run, for whom ``keep_free_blocks`` must stay free.
        """
        request = self._pending.get(waiting.request_id)
        if request is None:
            remembered = self._refusals.find(waiting.request_id)
            if remembered is not None and (keep_free or not remembered.kept_blocks_free):
                return None
            answer = self._admit(waiting, self._keep_free(waiting) if keep_free else ())
            if isinstance(answer, Refusal):
                return None
            request = answer
        if not self._extend(request, allocation):
            return None
        if request.has_unspent():
            self._to_settle[request.handle] = request
        if allocation.num_tokens < waiting.num_tokens:
            self._in_prompt[request.handle] = waiting.num_tokens
        self._live[waiting.request_id] = self._pending.pop(waiting.request_id)
        return request

    def _admit(self, waiting: Waiting, keep_free: tuple[int, ...]) -> ShadowRequest | Refusal:
        answer = self._ask_admission(waiting, keep_free)
        if _is_shortage(answer) and self._supply.return_luxuries(self._live.values()):
            answer = self._ask_admission(waiting, keep_free)
        if isinstance(answer, Refusal):
            self._return_idle_states()
            self._refusals.remember(waiting.request_id, answer, kept_blocks_free=any(keep_free))
            return answer
        self._refusals.drop(waiting.request_id)
        self._pending[waiting.request_id] = answer
        return answer

    def _keep_free(self, waiting: Waiting) -> tuple[int, ...]:
        """Blocks by class that an admission leaves to those that run."""
        align = self._settings.retention.alignment_tokens if self._settings.retention else 0
        num_prompts = len(self._in_prompt) + (0 < align < waiting.num_tokens)
        reserve = self._reserve.blocks(len(self._live), num_prompts)
        watermark = self._settings.keep_free_blocks or [0] * len(reserve)
        return tuple(map(operator.add, reserve, watermark))

    def _ask_admission(
        self, waiting: Waiting, keep_free: tuple[int, ...]
    ) -> ShadowRequest | Refusal:
        """One exchange: states to run the request on, its hit, and blocks to go on from it."""
        settings, handle = self._settings, Handle(next(self._handles))
        admit = AdmitRequest(
            handle,
            waiting.hashes,
            num_tokens=waiting.num_tokens,
            max_hit_tokens=waiting.num_tokens - 1 if waiting.hashes else 0,
            max_grant_tokens=settings.max_grant_tokens,
            lookahead_tokens=settings.lookahead_tokens,
            must_fit_tokens=waiting.num_tokens if settings.must_fit_whole else 0,
            keep_free_blocks=keep_free,
            states_are_leased=True,
            in_flight_tokens=settings.in_flight_tokens,
            encoder_tokens=waiting.encoder_tokens,
        )
        answer, no_state = self._supply.admit(
            admit, num_waiting=1 + len(self._pending), running=self._live.values()
        )
        if isinstance(answer, Refusal):
            return answer
        assert isinstance(answer, Admission), f"an admission was answered with {answer}"
        if no_state is None:
            encoder_tokens = waiting.encoder_tokens
            return ShadowRequest(self.plan, self._supply.stock, handle, answer, encoder_tokens)
        self.ledger.free(handle)
        return replace(no_state, hit_tokens=answer.hit_tokens, longest_tokens=answer.longest_tokens)

    def _lookup_of(self, refusal: Refusal) -> Lookup:
        return Lookup(
            refusal.hit_tokens,
            junction(refusal.hit_tokens, refusal.longest_tokens),
            tuple([] for _ in self.plan.groups),
        )

    # Running.

    def find(self, request_id: str) -> ShadowRequest | None:
        """A request that holds blocks, or None."""
        return self._live.get(request_id)

    def is_quiet(self, request: ShadowRequest, num_slots: int, num_processed: int) -> bool:
        """Whether a running request's step needs nothing: neither allocate nor commit has work."""
        return request.is_quiet(num_slots, num_processed, self._settings.retention)

    def allocate(self, request: ShadowRequest, allocation: Allocation) -> bool:
        """Give a running request the blocks its next tokens need; False where there are none."""
        self._drop(request, request.retire(allocation.num_processed))
        if not self._extend(request, allocation):
            return False
        if allocation.num_tokens >= self._in_prompt.get(request.handle, ANY_NUMBER):
            del self._in_prompt[request.handle]
        return True

    def retire(self, request_id: str, num_processed: int) -> None:
        """Give up what nobody reads any more once ``num_processed`` tokens were processed."""
        request = self._live.get(request_id)
        if request is not None:
            self._drop(request, request.retire(num_processed))

    def commit(
        self,
        request_id: str,
        hashes: Sequence[BlockHash],
        num_tokens: int,
        boundaries: Iterable[int],
    ) -> list[Committed]:
        """Make the full blocks of the first ``num_tokens`` tokens findable.

        Args:
            request_id: A live request; others have nothing to commit.
            hashes: Hashes at the plan's ``hash_tokens``.
            num_tokens: Tokens whose content is final, this step's included.
            boundaries: Positions worth a checkpoint, see :class:`Retention`.

        Returns:
            For every kind with new commits, the positions committed.
        """
        request, retention = self._live.get(request_id), self._settings.retention
        if request is None or retention is None:
            return []
        if self._draft_tokens:
            boundaries = [boundary - self._draft_tokens for boundary in boundaries]
        committed = []
        for index, table in enumerate(request.tables):
            kind = KindId(index)
            positions = request.commitable(kind, num_tokens, retention, boundaries)
            if positions:
                names = self._hashes_at(kind, hashes, positions)
                rows = FullRows(request.handle, kind, names, table.blocks_at(positions))
                self.ledger.commit(rows)
                table.note_committed(positions)
                committed.append(Committed(kind, positions))
                is_state = self.plan.spec_of_kind(kind).kind is GroupKind.RECURRENT_STATE
                self._committed_states |= is_state
                self._refusals.clear()
        return committed

    def _hashes_at(
        self, kind: KindId, hashes: Sequence[BlockHash], positions: Sequence[int]
    ) -> Sequence[BlockHash]:
        """What names the content at some positions of a kind: hashes are chained."""
        units = self.plan.spec_of_kind(kind).block_tokens // self.plan.hash_tokens
        if isinstance(positions, range):
            return hashes[(positions.start + 1) * units - 1 : positions.stop * units : units]
        return [hashes[(position + 1) * units - 1] for position in positions]

    def free(self, request_id: str) -> None:
        """A request is over, wherever it stood."""
        handle = self.detach(request_id)
        if handle is not None:
            self.free_handle(handle)

    def detach(self, request_id: str) -> Handle | None:
        """Forget a request but keep its blocks until :meth:`free_handle`: a step may write them."""
        self._refusals.drop(request_id)
        request = self._live.pop(request_id, None) or self._pending.pop(request_id, None)
        if request is None:
            return None
        self._to_settle.pop(request.handle, None)
        self._in_prompt.pop(request.handle, None)
        self._detached[request.handle] = request
        return request.handle

    def free_handle(self, handle: Handle) -> None:
        """Free the blocks of a detached request."""
        self._detached.pop(handle).recycle()
        self.ledger.free(handle)
        self._return_idle_states()
        self._refusals.clear()

    # Steps.

    def begin_step(self) -> None:
        """A step starts: unspent grants go back, states of the last step may be hit."""
        for request in self._pending.values():
            self.ledger.free(request.handle)
            self._refusals.clear()
        self._pending.clear()
        self._supply.begin_step(self._to_settle.values())
        self._to_settle.clear()
        self._refusals.clear_cause(RefusalCause.SAME_STEP)
        self._return_idle_states()
        if self._committed_states or self._settings.moves_blocks:
            self.ledger.begin_step()
            self._committed_states = False
        self._compare_books()

    def _compare_books(self) -> None:
        """Now and then, where that is wanted: does the pool keep the same books?"""
        self._num_steps += 1
        check_steps = self._settings.check_steps
        if not check_steps or self._num_steps % check_steps:
            return
        requests = [*self._live.values(), *self._pending.values(), *self._detached.values()]
        self.ledger.compare_books(digest_of_shadow(self.plan, requests, self._supply.stock))

    def end_step(self) -> None:
        """A step was planned, or processed: the pool hears of it, at once where nobody runs."""
        if self._anybody():
            self.ledger.end_step()
        else:
            self.ledger.flush()

    def take_blocks_to_zero(self) -> list[list[BlockId]]:
        """By size class, blocks spent since the last call whose bytes were last of another class.

        States are not among them: they are written whole before anybody reads them.
        """
        taken, self._to_zero = self._to_zero, [[] for _ in self.plan.classes]
        return taken

    def take_moves(self) -> list[Move]:
        """Blocks moved since the last call, in order: their bytes are copied before all else."""
        taken, self._moves = self._moves, []
        self._told.clear()
        return taken

    def tell(self, block_ids: tuple[list[BlockId], ...]) -> tuple[list[BlockId], ...]:
        """Ids that go into the step's plan: those that move until it is sent are renamed there."""
        if self._settings.moves_blocks:
            self._told.append(block_ids)
        return block_ids

    def _rename(self, moves: Sequence[Move]) -> None:
        """The pool moved blocks; whoever knows them calls them by their new ids from now on."""
        renames = Renames(self.plan, moves)
        requests = (self._live.values(), self._pending.values(), self._detached.values())
        for request in itertools.chain.from_iterable(requests):
            request.rename(renames)
        self._supply.stock.rename(renames)
        for block_ids in self._told:
            for group, blocks in enumerate(block_ids):
                renames.apply(GroupId(group), blocks)
        for move in moves:
            self._rename_to_zero(move)
        self._moves += moves

    def _rename_to_zero(self, move: Move) -> None:
        """Copies run before zeroing: what moved in stays, what was to be zeroed is so elsewhere."""
        to_zero = self._to_zero[move.size_class]
        if move.target in to_zero:
            to_zero.remove(move.target)
        if move.source in to_zero:
            to_zero[to_zero.index(move.source)] = move.target

    def reset_cache(self) -> bool:
        """Forget all cached content; False while requests hold blocks."""
        self.begin_step()
        self._refusals.clear()
        return self.ledger.reset_cache()

    # Spending.

    def _extend(self, request: ShadowRequest, allocation: Allocation) -> bool:
        if not self._secure(request, allocation):
            self._supply.return_luxuries(self._live.values())
            return False
        for spent in request.spend(allocation.num_tokens, allocation.num_slots):
            if self._supply.stock.stocks[spent.kind]:
                continue
            for group in self.plan.kinds[spent.kind]:
                self.ledger.take(request.handle, group, spent.num_rows)
            size_class = self.plan.class_of_kind(spent.kind)
            self._to_zero[size_class] += request.take_dirty(spent)
        return True

    def _secure(self, request: ShadowRequest, allocation: Allocation) -> bool:
        """Ask for what a request lacks, and again once all that lies idle has gone back."""
        running = self._live.values()
        if request.has_enough(allocation):
            return True
        self._supply.acquire(request, allocation, running)
        if not request.has_enough(allocation) and self._supply.return_luxuries(running):
            self._supply.acquire(request, allocation, running)
        return request.has_enough(allocation)

    def _return_idle_states(self) -> None:
        """Keep states nobody uses only for requests that run."""
        if self._anybody():
            self._supply.return_idle_states()
        else:
            self._supply.return_all_states()

    def _anybody(self) -> bool:
        """Whether any request holds blocks."""
        return bool(self._live or self._pending or self._detached)

    def _drop(self, request: ShadowRequest, retired: Iterable[Dropped]) -> None:
        for one in retired:
            columns = zip(*one.rows, strict=True)
            for group, blocks in zip(self.plan.kinds[one.kind], columns, strict=True):
                self.ledger.drop(request.handle, group, blocks)
            self._refusals.clear()
        self._return_idle_states()


def _is_shortage(answer: ShadowRequest | Refusal) -> bool:
    return isinstance(answer, Refusal) and answer.cause is RefusalCause.SHORTAGE
