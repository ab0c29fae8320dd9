"""The client's own copy of its attachment's accounting.

It answers what a scheduler asks at every step, and asks the pool only for what it cannot know:
whether a waiting request hits and fits (one exchange), and blocks beyond those granted. It spends
what it was granted; it never chooses a block.

A request in the shadow::

    lookup   -> admission pending     touched and granted, nothing spent
    allocate -> live                  spends; asks for more when grant and stock do not suffice
    begin_step                        pending admissions nobody allocated go back, and so does
                                      what was granted with an admission and not spent
    free     -> gone

States come from the engine's stock (see :mod:`kvquarry_client.stock`). Whoever has to ask for
blocks asks ahead for everybody who will need some soon, so that most steps ask for nothing.
"""

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from kvquarry_client.ledger import Ledger
from kvquarry_client.records import Dropped, ShadowRequest, junction
from kvquarry_client.refusals import RefusalMemo
from kvquarry_client.stock import StateStock
from kvquarry_core.group_rules import rule_for
from kvquarry_core.ids import BlockHash, BlockId, Handle, KindId
from kvquarry_core.messages import (
    Admission,
    AdmitRequest,
    AheadGrant,
    AheadRequest,
    Ask,
    FullRows,
    Grant,
    GrowRequest,
    LeaseRequest,
    Refusal,
    RefusalCause,
)
from kvquarry_core.plan import GroupKind, Plan
from kvquarry_core.prefix_index import Row
from kvquarry_core.retention import Retention


@dataclass(frozen=True, slots=True)
class ShadowSettings:
    """What an engine decides once.

    Attributes:
        max_grant_tokens: The longest chunk of one step.
        lookahead_tokens: Draft slots beyond it.
        must_fit_whole: Whether a request is admitted only if all of it could fit now.
        keep_free_blocks: Blocks of each class an admission must leave free while others run.
        retention: Which states are kept as checkpoints; None where nothing is ever committed.
        in_flight_tokens: The most tokens on their way at once, where steps overlap; 0 for those of
            one step.
        ahead_tokens: Attention blocks are asked for so many tokens before they are needed, and
            states nobody uses stay in stock. With 0, nothing lies idle: what is not in use can be
            had by everybody at once, at the price of more exchanges.
    """

    max_grant_tokens: int
    lookahead_tokens: int
    must_fit_whole: bool
    keep_free_blocks: tuple[int, ...]
    retention: Retention | None
    ahead_tokens: int = 0
    in_flight_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Waiting:
    """A waiting request, as much of it as a lookup needs.

    Attributes:
        request_id: The engine's name for it.
        hashes: Hashes of its full blocks, at the plan's ``hash_tokens``; empty to look up nothing.
        num_tokens: Its length now.
        encoder_tokens: Tokens of its encoder, for models with cross attention.
    """

    request_id: str
    hashes: Sequence[BlockHash]
    num_tokens: int
    encoder_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Lookup:
    """What a waiting request may build on.

    Attributes:
        hit_tokens: Tokens that need not be computed.
        junction_tokens: Where another request's longer prefix parts from it, or 0.
        block_ids: The blocks hit, by group, null blocks included; empty after a refusal.
    """

    hit_tokens: int
    junction_tokens: int
    block_ids: tuple[list[BlockId], ...]


@dataclass(frozen=True, slots=True)
class Allocation:
    """How far a request is going to be computed.

    Attributes:
        num_tokens: Tokens of the main model after this step, computed ones included.
        num_slots: The same plus draft slots.
        num_processed: Tokens whose step has been processed: nothing in flight reads before them.
    """

    num_tokens: int
    num_slots: int
    num_processed: int


@dataclass(frozen=True, slots=True)
class Committed:
    """Positions of one kind that a request just made findable."""

    kind: KindId
    positions: Sequence[int]


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
        self._stock = StateStock(plan)
        self._refusals = RefusalMemo()
        self._to_settle: dict[Handle, ShadowRequest] = {}
        self._to_zero: list[BlockId] = []
        self._committed_states = False
        self._ran_out_alone = False
        self._times_stuck = 0
        self._rows_ahead = max(
            (
                -(-settings.ahead_tokens // group.block_tokens)
                for group in plan.groups
                if rule_for(group).grows
            ),
            default=0,
        )
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
            answer = self._admit(waiting, self._settings.keep_free_blocks if self._live else ())
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
            answer = self._admit(waiting, self._settings.keep_free_blocks if keep_free else ())
            if isinstance(answer, Refusal):
                return None
            request = answer
        if not self._extend(request, allocation):
            return None
        if request.has_unspent():
            self._to_settle[request.handle] = request
        self._live[waiting.request_id] = self._pending.pop(waiting.request_id)
        return request

    def _admit(self, waiting: Waiting, keep_free: tuple[int, ...]) -> ShadowRequest | Refusal:
        self._start_afresh_if_stuck()
        answer = self._ask_admission(waiting, keep_free)
        if _is_shortage(answer) and self._return_luxuries():
            answer = self._ask_admission(waiting, keep_free)
        if isinstance(answer, Refusal):
            self._ran_out_alone = _is_shortage(answer) and not self._anybody()
            self._return_idle_states()
            self._refusals.remember(waiting.request_id, answer, kept_blocks_free=any(keep_free))
            return answer
        self._refusals.drop(waiting.request_id)
        self._pending[waiting.request_id] = answer
        return answer

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
        lease = self._lease_for_admission()
        *leased, answer = self.ledger.ask([*lease, admit])
        no_state = next((one for one in leased if isinstance(one, Refusal)), None)
        for one in leased:
            if isinstance(one, Grant):
                self._stock.add_grant(one)
        if isinstance(answer, Admission):
            if no_state is None:
                encoder_tokens = waiting.encoder_tokens
                return ShadowRequest(self.plan, self._stock, handle, answer, encoder_tokens)
            self.ledger.free(handle)
            return replace(
                no_state, hit_tokens=answer.hit_tokens, longest_tokens=answer.longest_tokens
            )
        assert isinstance(answer, Refusal), f"an admission was answered with {answer}"
        return answer

    def _lease_for_admission(self) -> list[LeaseRequest]:
        """States that are missing for one more request to start, besides those looked up."""
        wanted = [0] * len(self.plan.groups)
        for index, members in enumerate(self.plan.kinds):
            kind = KindId(index)
            if self._stock.stocks[kind]:
                num_rows = 1 + self.plan.spec_of_kind(kind).num_speculative_blocks
                num_rows *= 1 + len(self._pending)
                for group in members:
                    wanted[group] = max(num_rows - self._stock.num_rows(kind), 0)
        return [LeaseRequest(wanted)] if any(wanted) else []

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
        return self._extend(request, allocation)

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
        unspent = [request for request in self._to_settle.values() if request.has_unspent()]
        for request in unspent:
            request.return_unspent()
            self.ledger.settle(request.handle)
        if self._pending or unspent:
            self._refusals.clear()
        self._pending.clear()
        self._to_settle.clear()
        self._refusals.clear_cause(RefusalCause.SAME_STEP)
        self._return_idle_states()
        self._give_back(self._stock.take_idle())
        if self._committed_states:
            self.ledger.begin_step()
            self._committed_states = False

    def take_blocks_to_zero(self) -> list[BlockId]:
        """Blocks spent since the last call whose bytes meant something else; no states."""
        taken, self._to_zero = self._to_zero, []
        return taken

    def reset_cache(self) -> bool:
        """Forget all cached content; False while requests hold blocks."""
        self.begin_step()
        self._refusals.clear()
        return self.ledger.reset_cache()

    # Spending.

    def _extend(self, request: ShadowRequest, allocation: Allocation) -> bool:
        if any(request.missing(allocation.num_tokens, allocation.num_slots)):
            self._acquire(request, allocation, self._running_low())
            missing = request.missing(allocation.num_tokens, allocation.num_slots)
            if any(missing) and self._return_luxuries():
                self._acquire(request, allocation, [])
                missing = request.missing(allocation.num_tokens, allocation.num_slots)
            if any(missing):
                self._return_luxuries()
                self._ran_out_alone = len(self._live) <= 1
                return False
        for spent in request.spend(allocation.num_tokens, allocation.num_slots):
            if self._stock.stocks[spent.kind]:
                continue
            for group in self.plan.kinds[spent.kind]:
                self.ledger.take(request.handle, group, spent.num_rows)
            self._to_zero += request.take_dirty(spent)
        return True

    def _acquire(
        self, request: ShadowRequest, allocation: Allocation, ahead: Sequence[ShadowRequest]
    ) -> None:
        """Ask for a request's missing rows and, in the same exchange, ahead for others."""
        missing = request.missing(allocation.num_tokens, allocation.num_slots)
        grow, lease = self._by_group(missing, stocked=False), self._by_group(missing, stocked=True)
        asks: list[Ask] = []
        if any(lease):
            asks.append(LeaseRequest(lease))
        if any(grow):
            asks.append(GrowRequest(request.handle, grow))
        if ahead:
            counts = [self._rows_ahead] * len(ahead)
            asks.append(AheadRequest([one.handle for one in ahead], counts))
        for ask, answer in zip(asks, self.ledger.ask(asks), strict=True):
            if isinstance(answer, AheadGrant):
                for one, grant in zip(ahead, answer.grants, strict=True):
                    one.add_grant(grant)
            elif isinstance(answer, Grant):
                owner = self._stock if isinstance(ask, LeaseRequest) else request
                owner.add_grant(answer)

    def _running_low(self) -> list[ShadowRequest]:
        """Requests that will ask for attention blocks soon."""
        if not self._rows_ahead:
            return []
        return [one for one in self._live.values() if one.runs_low(self._rows_ahead // 2)]

    def _return_luxuries(self) -> bool:
        """Memory is short: give back what lies idle; False where there was nothing."""
        unspent = [one for one in self._live.values() if one.has_unspent()]
        for request in unspent:
            request.return_unspent()
            self.ledger.settle(request.handle)
        idle = self._stock.take_all()
        self._give_back(idle)
        return bool(unspent or idle)

    def _return_idle_states(self) -> None:
        """Keep states nobody uses only for requests that run, and only where that is wanted."""
        if not (self._anybody() and self._settings.ahead_tokens):
            self._give_back(self._stock.take_all())

    def _anybody(self) -> bool:
        """Whether any request holds blocks."""
        return bool(self._live or self._pending or self._detached)

    def _start_afresh_if_stuck(self) -> None:
        """Forget the cache when one request after the other ran out of blocks though it was alone.

        Its states took single blocks of slabs that others had left content in, which kept those
        slabs from its own attention. Started again it would do the same for ever; in an empty pool
        it finds its blocks together.
        """
        if self._anybody():
            return
        self._times_stuck = self._times_stuck + 1 if self._ran_out_alone else 0
        self._ran_out_alone = False
        if self._times_stuck > 1:
            self.ledger.reset_cache()
            self._times_stuck = 0

    def _give_back(self, idle: Iterable[tuple[KindId, list[Row]]]) -> None:
        for kind, rows in idle:
            columns = zip(*rows, strict=True)
            for group, blocks in zip(self.plan.kinds[kind], columns, strict=True):
                self.ledger.give_back(group, blocks)
            self._refusals.clear()

    def _by_group(self, rows_of_kinds: Sequence[int], *, stocked: bool) -> list[int]:
        """Blocks by group, of the kinds that come from the stock or of those that do not."""
        wanted = [0] * len(self.plan.groups)
        for kind, members in enumerate(self.plan.kinds):
            if self._stock.stocks[kind] == stocked:
                for group in members:
                    wanted[group] = rows_of_kinds[kind]
        return wanted

    def _drop(self, request: ShadowRequest, retired: Iterable[Dropped]) -> None:
        for one in retired:
            for row in one.rows:
                for group, block in zip(self.plan.kinds[one.kind], row, strict=True):
                    self.ledger.drop(request.handle, group, block)
            self._refusals.clear()
        self._return_idle_states()


def _is_shortage(answer: ShadowRequest | Refusal) -> bool:
    return isinstance(answer, Refusal) and answer.cause is RefusalCause.SHORTAGE
