"""A pool: every operation an attachment can ask for.

A request's life, top to bottom::

    admit   look up, touch the hit, grant blocks for the first chunk
    take    spend granted blocks
    grow    grant more, when the request needs more than it was granted
    settle  give back what was not spent
    commit  a block is full: it may be found by its hash
    drop    a block is no longer needed (a retired state, attention out of its window)
    free    the request is over; its content stays cached until memory is needed

Beside the requests, the client has a *lease*: states that it runs its requests on and recycles by
itself. A leased state becomes a request's own when it is committed. And there are *pins*
(:mod:`kvquarry_core.pins`): cached prefixes that stay for a while.

Every operation is all or nothing: arguments are checked and sums are done before anything moves.
"""

from collections.abc import Iterable, Iterator, Sequence

from kvquarry_core import checks
from kvquarry_core.admission import Admitter
from kvquarry_core.allocator import Allocator
from kvquarry_core.block_store import BlockStore
from kvquarry_core.commit_checks import check_rows
from kvquarry_core.concession import Concession
from kvquarry_core.coordinator import Coordinator
from kvquarry_core.counters import PoolCounters
from kvquarry_core.errors import Reason, UsageError
from kvquarry_core.evacuation import Evacuator
from kvquarry_core.eviction import Eviction, Lru
from kvquarry_core.gate import Gate
from kvquarry_core.granting import Granter
from kvquarry_core.hit_choice import HitChoice
from kvquarry_core.ids import BlockHash, BlockId, GroupId, Handle, KindId
from kvquarry_core.lease import Lease
from kvquarry_core.messages import (
    Admission,
    AdmitRequest,
    AheadGrant,
    AheadRequest,
    Answer,
    Ask,
    FullRows,
    Grant,
    GrowRequest,
    LeaseRequest,
    Pinned,
    PinRefusal,
    PinRequest,
    Refusal,
)
from kvquarry_core.observer import NULL_OBSERVER, PoolObserver
from kvquarry_core.pins import DEFAULT_PIN_CAP, Pins
from kvquarry_core.placement import Affinity, Placement
from kvquarry_core.plan import Plan
from kvquarry_core.prefix_index import Row
from kvquarry_core.reach import Reach
from kvquarry_core.relocation import Relocation
from kvquarry_core.resumption import Resumption
from kvquarry_core.running import RunningRequests
from kvquarry_core.sharing import Sharing
from kvquarry_core.sizing import Sizing
from kvquarry_core.supersession import Supersession
from kvquarry_core.work import TOKENS, Work


class Pool:
    """The accounting of one pool. One owner calls it; a call is atomic."""

    def __init__(  # noqa: PLR0913 - a pool's whole description, keyword-only
        self,
        plan: Plan,
        *,
        placement: Placement | None = None,
        eviction: Eviction | None = None,
        relocation: Relocation | None = None,
        observer: PoolObserver = NULL_OBSERVER,
        pin_cap: float = DEFAULT_PIN_CAP,
        work: Work = TOKENS,
    ) -> None:
        eviction = eviction or Lru()
        self.plan = plan
        self.totals = PoolCounters()
        # Who has what.
        self.store = BlockStore(plan, observer, work)
        self.requests = RunningRequests(plan)
        self.lease = Lease(plan, self.store)
        coordinator = Coordinator(plan)
        self.pins = Pins(self.store, coordinator, cap=pin_cap)
        # Who gets what.
        self.evacuator = Evacuator(self.store, self.lease, self.requests, self.pins, relocation)
        self.gate = Gate(self.store, self.evacuator)
        self.allocator = Allocator(self.store, placement or Affinity(), eviction, self.evacuator)
        self._granter = Granter(
            self.store, self.requests, self.gate, self.allocator, self.evacuator
        )
        # What requests have in common.
        self._reach = Reach(self.store)
        self._resumption = Resumption(self.store)
        supersession = Supersession(self.store, eviction)
        self._sharing = Sharing(
            self.store, self.lease, self.evacuator, supersession, self._resumption
        )
        self._sizing = Sizing(plan, self.store.index, coordinator.rules)
        admitter = Admitter(self.requests, self._sizing, self.gate, self._granter, self._sharing)
        self._hit_choice = HitChoice(
            self.store.index, coordinator, self.requests, self.pins, admitter
        )

    # A request's life.

    def admit(self, request: AdmitRequest) -> Admission | Refusal:
        """Touch the longest hit and grant blocks to go on from it, or change nothing.

        Where not all of ``max_grant_tokens`` can be granted, fewer are: enough for one token
        at least.
        """
        checks.check_admit(self.plan, request)
        if request.handle in self.requests:
            raise UsageError(Reason.DUPLICATE_REQUEST, f"request {request.handle} exists already")
        answer = self._hit_choice.admit(request)
        self.totals.count_answer(answer)
        return answer

    def grow(self, handle: Handle, num_blocks: Sequence[int]) -> Grant | Refusal:
        """Grant a request ``num_blocks[g]`` more blocks in every group ``g``, or none at all."""
        record = self.requests.record(handle)
        checks.check_counts(self.plan, num_blocks)
        columns = zip(record.held, record.granted, num_blocks, strict=True)
        total = [len(held) + len(granted) + more for held, granted, more in columns]
        answer = self._granter.grant_or_refuse(record, num_blocks, total, self._concessions())
        self.totals.count_answer(answer)
        if isinstance(answer, Grant):
            self._resumption.keep_young(record)
        return answer

    def lease_blocks(self, num_blocks: Sequence[int]) -> Grant | Refusal:
        """Add blocks to the client's stock of states, by group, or none at all."""
        checks.check_counts(self.plan, num_blocks)
        columns = zip(self.lease.blocks, num_blocks, strict=True)
        total = [len(leased) + more for leased, more in columns]
        answer = self._granter.grant_or_refuse(
            self.requests.new_record(), num_blocks, total, self._concessions()
        )
        self.totals.count_answer(answer)
        if isinstance(answer, Grant):
            for group, blocks in enumerate(answer.blocks):
                self.lease.add(GroupId(group), blocks)
        return answer

    def grant_ahead(self, request: AheadRequest) -> AheadGrant:
        """Grant requests attention blocks before they need them, where memory allows.

        See :mod:`kvquarry_core.luxury`. What was granted ahead goes back before anybody is
        refused, so that nobody waits for blocks that lie idle elsewhere.
        """
        records = [self.requests.record(handle) for handle in request.handles]
        checks.check_ahead(request)
        grants = []
        for record, num_blocks in zip(records, request.num_blocks, strict=True):
            wanted = self._sizing.attention(num_blocks)
            if not self.gate.admits_luxury(self.plan.by_class(wanted), self.requests.owed):
                wanted = [0] * len(wanted)
            grants.append(self._granter.grant(record, wanted))
            self._resumption.keep_young(record)
        return AheadGrant(tuple(grants))

    def answer(self, ask: Ask) -> Answer:
        """Whatever has to be answered."""
        match ask:
            case AdmitRequest():
                return self.admit(ask)
            case GrowRequest():
                return self.grow(ask.handle, ask.num_blocks)
            case LeaseRequest():
                return self.lease_blocks(ask.num_blocks)
            case AheadRequest():
                return self.grant_ahead(ask)
            case PinRequest():
                return self.pin(ask)

    def take(self, handle: Handle, group: GroupId, num_blocks: int) -> list[BlockId]:
        """Spend granted blocks: they become the request's own, in the order granted."""
        record = self.requests.record(handle)
        checks.check_group(self.plan, group)
        checks.check_granted(handle, group, len(record.granted[group]), num_blocks)
        taken = self._granter.spend(record, group, num_blocks)
        if taken:
            self.totals.count_lookup(record)
        return taken

    def settle(self, handle: Handle) -> None:
        """Give back what was granted and not spent."""
        self._granter.settle(self.requests.record(handle))

    def commit(self, handle: Handle, kind: KindId, block_hash: BlockHash, row: Row) -> None:
        """Commit one row, see :meth:`commit_rows`."""
        self.commit_rows([FullRows(handle, kind, (block_hash,), list(row))])

    def commit_rows(self, commits: Sequence[FullRows]) -> None:
        """Rows are full and will hold the content their hashes name once their step has run.

        Attention rows can be hit at once: whoever hits them reads them in the same step or
        later, after they were written. States can be hit from the next step on. A run of no rows
        is none.
        """
        checked = check_rows(self.store, self.lease, self.requests, commits)
        for (record, places), rows in zip(checked, commits, strict=True):
            if rows.hashes:
                self._sharing.commit(record, rows, places)
                self.totals.commits += len(rows.hashes)
                self.totals.count_lookup(record)

    def drop(self, handle: Handle, group: GroupId, block: BlockId) -> None:
        """The request no longer needs one of its blocks."""
        self.drop_blocks(handle, group, (block,))

    def drop_blocks(self, handle: Handle, group: GroupId, blocks: Sequence[BlockId]) -> None:
        """The request no longer needs some of its blocks; they are evicted in this order."""
        record = self.requests.record(handle)
        checks.check_group(self.plan, group)
        missing = record.remove(group, blocks)
        if missing is not None:
            raise UsageError(
                Reason.NOT_HELD, f"request {handle} does not hold block {missing} in group {group}"
            )
        self.requests.note_dropped(record, group, len(blocks))
        self.store.release(self.plan.class_of_group[group], blocks, record.priority)

    def free(self, handle: Handle) -> None:
        """The request is over. Its tail is released before its head, so it is evicted first.

        What no hit can reach any more goes before all that others left behind.
        """
        self.settle(handle)
        record = self.requests.remove(handle)
        for group, held in enumerate(record.held):
            size_class = self.plan.class_of_group[group]
            num_reached = self._reach.num_reached(GroupId(group), record.held)
            if num_reached < len(held):
                self.store.release_to_go_first(size_class, held[num_reached:])
            self.store.release(size_class, held[:num_reached][::-1], record.priority)
        self._resumption.keep_young(record)

    def give_back(self, group: GroupId, blocks: Sequence[BlockId]) -> None:
        """Take leased blocks back from the client."""
        checks.check_blocks(self.plan, group, blocks)
        self.lease.give_back(group, blocks)

    def begin_step(self) -> None:
        """A new step starts: states committed in the last one may be hit."""
        self.store.contents.begin_step()
        self.evacuator.begin_step()

    # Pins.

    def pin(self, request: PinRequest) -> Pinned | PinRefusal:
        """Keep the longest cached prefix of some text for a while, or say why not."""
        checks.check_pin(request)
        answer = self.pins.pin(request, self.requests.owed)
        self.totals.count_pin(answer)
        return answer

    def unpin(self, pin_id: str) -> bool:
        """End a pin; False where there is none of this name, perhaps since it has lapsed."""
        return self.pins.unpin(pin_id)

    def note_time(self, now_s: float) -> None:
        """It is this late, by a clock that only goes forward: some pins may be over."""
        self.pins.lapse(now_s)

    # The cache as a whole.

    def forget(self, group: GroupId, blocks: Sequence[BlockId]) -> None:
        """Make blocks unfindable, for instance because a transfer left them invalid."""
        checks.check_blocks(self.plan, group, blocks)
        size_class = self.plan.class_of_group[group]
        self.pins.end_with(size_class, blocks)
        self.store.forget(size_class, blocks)

    def reset_cache(self) -> bool:
        """Forget all cached content, pinned or not, unless a request still uses blocks."""
        if self.is_in_use:
            return False
        for _ in self.forget_all():
            pass
        self.begin_step()
        return True

    @property
    def is_in_use(self) -> bool:
        """Whether a request uses blocks: then the cache cannot be reset."""
        return any(any(record.held) for record in self.requests.values())

    def forget_all(self) -> Iterator[None]:
        """Forget all cached content, pins first, and yield after every few hundred rows of it."""
        self.pins.end_all()
        yield from self.store.forget_all()

    def _concessions(self) -> Iterable[Concession]:
        """Those that are made where preempting somebody would be of no use: nobody else runs."""
        return self.pins.concessions() if len(self.requests) <= 1 else ()
