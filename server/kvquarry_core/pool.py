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
itself. A leased state becomes a request's own when it is committed.

Every operation is all or nothing: arguments are checked and sums are done before anything moves.
"""

from collections.abc import Sequence
from dataclasses import replace

from kvquarry_core import checks
from kvquarry_core.block_store import BlockStore
from kvquarry_core.coordinator import Coordinator, Hit
from kvquarry_core.demand import Demand
from kvquarry_core.errors import Reason, UsageError
from kvquarry_core.evacuation import NO_EVACUATION, Evacuation, Evacuator
from kvquarry_core.eviction import Eviction, Lru
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
    PoolCounters,
    Refusal,
    RefusalCause,
)
from kvquarry_core.observer import NULL_OBSERVER, PoolObserver
from kvquarry_core.placement import Affinity, Placement
from kvquarry_core.plan import GroupKind, Plan
from kvquarry_core.prefix_index import Row
from kvquarry_core.promise import Promise
from kvquarry_core.reach import Reach
from kvquarry_core.relocation import Relocation
from kvquarry_core.requests import RequestRecord
from kvquarry_core.sizing import Sizing
from kvquarry_core.supersession import Supersession


class Pool:
    """The accounting of one pool. One owner calls it; a call is atomic."""

    def __init__(
        self,
        plan: Plan,
        *,
        placement: Placement | None = None,
        eviction: Eviction | None = None,
        relocation: Relocation | None = None,
        observer: PoolObserver = NULL_OBSERVER,
    ) -> None:
        self.plan = plan
        eviction = eviction or Lru()
        self.store = BlockStore(plan, placement or Affinity(), eviction, observer)
        self.requests: dict[Handle, RequestRecord] = {}
        self.lease = Lease(plan, self.store)
        self._evacuator = Evacuator(self.store, self.lease, relocation)
        self.num_granted = [0] * len(plan.classes)
        #: Blocks promised to running requests and not granted yet, by class.
        self.owed = [0] * len(plan.classes)
        self.totals = PoolCounters()
        self._coordinator = Coordinator(plan)
        self._reach = Reach(self.store)
        self._supersession = Supersession(self.store, eviction)
        self._sizing = Sizing(plan, self.store, self._coordinator)
        self._nothing_touched: list[set[BlockId]] = [set() for _ in plan.classes]
        # By kind, named by their first blocks.
        self._states_of_this_step: list[set[BlockId]] = [set() for _ in plan.kinds]
        # The largest blocks first.
        self._grant_order = sorted(
            map(GroupId, range(len(plan.groups))), key=lambda group: -plan.class_of_group[group]
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
        index, hashes = self.store.index, request.hashes
        hit = self._coordinator.longest_hit(index, hashes, request.max_hit_tokens)
        answer = self._admit_on(hit, request)
        if _is_shortage(answer) and hit.num_tokens and not self.requests:
            # Nobody will ever free anything: better to compute the prefix again than to wait for
            # a block beside the checkpoint that was hit.
            answer = self._admit_on(self._coordinator.no_hit, request)
        if isinstance(answer, Refusal):
            self.totals.refusals += 1
        return answer

    def grow(self, handle: Handle, num_blocks: Sequence[int]) -> Grant | Refusal:
        """Grant a request ``num_blocks[g]`` more blocks in every group ``g``, or none at all."""
        record = self._record(handle)
        checks.check_counts(self.plan, num_blocks)
        columns = zip(record.held, record.granted, num_blocks, strict=True)
        total = [len(held) + len(granted) + more for held, granted, more in columns]
        return self._grant_or_refuse(record, num_blocks, total)

    def lease_blocks(self, num_blocks: Sequence[int]) -> Grant | Refusal:
        """Add blocks to the client's stock of states, by group, or none at all."""
        checks.check_counts(self.plan, num_blocks)
        columns = zip(self.lease.blocks, num_blocks, strict=True)
        total = [len(leased) + more for leased, more in columns]
        grant = self._grant_or_refuse(self._new_record(), num_blocks, total)
        if isinstance(grant, Grant):
            for group, blocks in enumerate(grant.blocks):
                self.lease.add(GroupId(group), blocks)
        return grant

    def grant_ahead(self, request: AheadRequest) -> AheadGrant:
        """Grant requests attention blocks before they need them, where free memory is plenty.

        Nothing is evicted for it, and what is granted ahead shrinks to nothing under pressure, so
        that nobody waits for blocks that lie idle elsewhere.
        """
        records = [self._record(handle) for handle in request.handles]
        checks.check_ahead(request)
        grants = []
        for record, num_blocks in zip(records, request.num_blocks, strict=True):
            wanted = self._sizing.attention(num_blocks)
            besides = zip(self._sizing.by_class(wanted), self.owed, strict=True)
            demand = [blocks + owed for blocks, owed in besides]
            if not self.store.free_memory().leaves_reserve(self.plan, demand):
                wanted = [0] * len(wanted)
            grants.append(self._grant(record, wanted))
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

    def take(self, handle: Handle, group: GroupId, num_blocks: int) -> list[BlockId]:
        """Spend granted blocks: they become the request's own, in the order granted."""
        record = self._record(handle)
        checks.check_group(self.plan, group)
        granted = record.granted[group]
        if not 0 <= num_blocks <= len(granted):
            raise UsageError(
                Reason.NOT_GRANTED,
                f"request {handle} has {len(granted)} granted blocks in group {group}, "
                f"not {num_blocks}",
            )
        size_class = self.plan.class_of_group[group]
        taken = granted[:num_blocks]
        del granted[:num_blocks]
        self.store.spend(size_class, taken)
        record.held[group] += taken
        self.num_granted[size_class] -= num_blocks
        if taken:
            self._count_lookup(record)
        return taken

    def settle(self, handle: Handle) -> None:
        """Give back what was granted and not spent."""
        record = self._record(handle)
        for group, granted in enumerate(record.granted):
            if not granted:
                continue
            size_class = self.plan.class_of_group[group]
            self.num_granted[size_class] -= len(granted)
            self._note_granted(record, GroupId(group), -len(granted))
            self.store.give_back(size_class, reversed(granted))
            granted.clear()

    def commit(self, handle: Handle, kind: KindId, block_hash: BlockHash, row: Row) -> None:
        """Commit one row, see :meth:`commit_rows`."""
        self.commit_rows([FullRows(handle, kind, (block_hash,), row)])

    def commit_rows(self, commits: Sequence[FullRows]) -> None:
        """Rows are full and will hold the content their hashes name once their step has run.

        Attention rows can be hit at once: whoever hits them reads them in the same step or
        later, after they were written. States can be hit from the next step on.
        """
        records = [self._record(rows.handle) for rows in commits]
        for record, rows in zip(records, commits, strict=True):
            checks.check_commit(self.store, self.lease, record, rows)
        if len(commits) > 1:
            checks.check_no_block_twice(self.plan, commits)
        for record, rows in zip(records, commits, strict=True):
            self._commit(record, rows)
            self._count_lookup(record)

    def drop(self, handle: Handle, group: GroupId, block: BlockId) -> None:
        """The request no longer needs one of its blocks."""
        self.drop_blocks(handle, group, (block,))

    def drop_blocks(self, handle: Handle, group: GroupId, blocks: Sequence[BlockId]) -> None:
        """The request no longer needs some of its blocks; they are evicted in this order."""
        record = self._record(handle)
        checks.check_group(self.plan, group)
        missing = record.remove(group, blocks)
        if missing is not None:
            raise UsageError(
                Reason.NOT_HELD, f"request {handle} does not hold block {missing} in group {group}"
            )
        size_class = self.plan.class_of_group[group]
        self.owed[size_class] -= record.promise.owed(group)
        record.promise.dropped(group, len(blocks))
        self.owed[size_class] += record.promise.owed(group)
        self.store.release(size_class, blocks)

    def free(self, handle: Handle) -> None:
        """The request is over. Its tail is released before its head, so it is evicted first.

        What no hit can reach any more goes before all that others left behind.
        """
        self.settle(handle)
        record = self.requests.pop(handle)
        for group, held in enumerate(record.held):
            size_class = self.plan.class_of_group[group]
            self.owed[size_class] -= record.promise.owed(GroupId(group))
            num_reached = self._reach.num_reached(GroupId(group), held)
            self.store.release_to_go_first(size_class, held[num_reached:])
            self.store.release(size_class, reversed(held[:num_reached]))

    def give_back(self, group: GroupId, blocks: Sequence[BlockId]) -> None:
        """Take leased blocks back from the client."""
        checks.check_blocks(self.plan, group, blocks)
        self.lease.give_back(group, blocks)
        self.num_granted[self.plan.class_of_group[group]] -= len(blocks)

    def begin_step(self) -> None:
        """A new step starts: states committed in the last one may be hit."""
        for young in self._states_of_this_step:
            young.clear()
        self._evacuator.begin_step()

    # The cache as a whole.

    def forget(self, group: GroupId, blocks: Sequence[BlockId]) -> None:
        """Make blocks unfindable, for instance because a transfer left them invalid."""
        checks.check_blocks(self.plan, group, blocks)
        size_class = self.plan.class_of_group[group]
        for block in blocks:
            commitment = self.store.commitment(size_class, block)
            if commitment is not None:
                self.store.forget(commitment)

    def reset_cache(self) -> bool:
        """Forget all cached content, unless a request still uses blocks."""
        if any(any(record.held) for record in self.requests.values()):
            return False
        for index in range(len(self.plan.kinds)):
            for commitment in self.store.index.commitments(KindId(index)):
                self.store.forget(commitment)
        self.begin_step()
        return True

    # Commits.

    def _commit(self, record: RequestRecord, rows: FullRows) -> None:
        """What was checked happens."""
        members = self.plan.kinds[rows.kind]
        for member, group in enumerate(members):
            column = list(rows.blocks[member :: len(members)])
            place = record.place_of(group, column)
            if place is None:
                self._take_over(record, group, column)
                place = len(record.held[group]) - len(column)
            record.settled[group] = place + len(column)
        self.totals.commits += len(rows.hashes)
        if self.plan.spec_of_kind(rows.kind).kind is GroupKind.RECURRENT_STATE:
            self.store.commit(rows.kind, rows.hashes, rows.blocks, self._committed_tokens(record))
            self._states_of_this_step[rows.kind].update(rows.blocks[:: len(members)])
            self._evacuator.pin(self.plan.class_of_kind(rows.kind), rows.blocks)
            self._supersession.note_commit(record, rows.kind)
        else:
            self.store.commit(rows.kind, rows.hashes, rows.blocks)

    def _committed_tokens(self, record: RequestRecord) -> int:
        """Tokens of a request whose content is final, as its attention shows; 0 without any."""
        return max(
            (
                settled * spec.block_tokens
                for settled, spec in zip(record.settled, self.plan.groups, strict=True)
                if spec.kind is GroupKind.FULL_ATTENTION
            ),
            default=0,
        )

    def _take_over(self, record: RequestRecord, group: GroupId, blocks: Sequence[BlockId]) -> None:
        """Those of ``blocks`` that were leased become the request's own."""
        leased = [block for block in blocks if block in self.lease.blocks[group]]
        self.lease.hand_over(group, leased)
        record.held[group] += leased
        self.num_granted[self.plan.class_of_group[group]] -= len(leased)

    # Admission, step by step.

    def _grant_or_refuse(
        self, record: RequestRecord, num_blocks: Sequence[int], total: Sequence[int]
    ) -> Grant | Refusal:
        """Grant ``num_blocks``, or say why not, to somebody who would then have ``total``."""
        demand = self._sizing.by_class(num_blocks)
        if self.store.fits(demand, self._nothing_touched):
            return self._grant(record, num_blocks)
        evacuation = self._evacuator.plan(demand, self._nothing_touched)
        if evacuation:
            moves = self._evacuator.clear(evacuation, self.requests.values())
            return replace(self._grant(record, num_blocks), moves=moves)
        self.totals.refusals += 1
        if self.plan.could_hold(self._sizing.by_class(total)):
            return self._sizing.shortage(demand)
        return self._sizing.never(demand)

    def _admit_on(self, hit: Hit, request: AdmitRequest) -> Admission | Refusal:
        """Admit a request that builds on a hit, or say why not."""
        for young, kind_hit in zip(self._states_of_this_step, hit.kinds, strict=True):
            if young and not young.isdisjoint(kind_hit.rows):
                return Refusal(RefusalCause.SAME_STEP, hit.num_tokens, hit.longest_tokens)
        touched, evacuation = self._sizing.touched(hit), NO_EVACUATION
        promise = self._sizing.promise(request, hit.num_tokens)
        if request.must_fit_tokens:
            if not self._sizing.could_ever_hold_whole(request, hit):
                return self._sizing.never(self._sizing.whole_sequence(request, 0), hit)
            rest = self._sizing.by_class(promise.room)
            demand = self._sizing.with_kept_free(rest, request)
            if not self.store.fits(demand, touched):
                evacuation = self._evacuator.plan(demand, touched)
                if not evacuation:
                    return self._sizing.shortage(demand, hit)
        return self._grant_first_chunk(hit, request, promise, evacuation)

    def _grant_first_chunk(
        self,
        hit: Hit,
        request: AdmitRequest,
        promise: Promise,
        evacuation: Evacuation,
    ) -> Admission | Refusal:
        """As much of the first chunk as there are blocks for; the rest of a promise is owed."""
        touched = self._sizing.touched(hit)
        demand: list[int] = []
        for wanted in self._sizing.first_chunks(request, hit):
            demand = self._sizing.by_class(wanted)
            if evacuation.makes_fit(demand) or self.store.fits(demand, touched):
                record = self._touch(hit)
                moves = self._evacuator.clear(evacuation, self.requests.values())
                self._make_promise(record, promise)
                record.query_tokens, record.hit_tokens = request.num_tokens, hit.num_tokens
                self.requests[request.handle] = record
                held = tuple(list(blocks) for blocks in record.held)
                grant = self._grant(record, wanted)
                if moves:
                    grant = replace(grant, moves=moves)
                return Admission(hit.num_tokens, hit.longest_tokens, held, grant)
        if self.plan.could_hold(self._sizing.first_token(request, hit)):
            return self._sizing.shortage(demand, hit)
        return self._sizing.never(demand, hit)

    def _touch(self, hit: Hit) -> RequestRecord:
        """A record that references a hit."""
        record = self._new_record()
        for index, kind_hit in enumerate(hit.kinds):
            kind = KindId(index)
            size_class = self.plan.class_of_kind(kind)
            columns = self.store.index.columns(kind, kind_hit.rows)
            for group, column in zip(self.plan.kinds[kind], columns, strict=False):
                self.store.touch(size_class, column)
                self._evacuator.pin(size_class, column)
                record.held[group] += column
                record.settled[group] = len(column)
                record.last_slab[size_class] = self.store.slabs.slab_of(size_class, column[-1])
        self._supersession.note_hit(record, hit)
        return record

    def _grant(self, record: RequestRecord, wanted: Sequence[int]) -> Grant:
        """Hand out what :meth:`BlockStore.fits` promised, the largest blocks first."""
        demand = self._demand(record, wanted)
        self.store.secure(demand)
        blocks: list[list[BlockId]] = [[] for _ in wanted]
        dirty: list[list[BlockId]] = [[] for _ in wanted]
        for group in self._grant_order:
            if wanted[group]:
                blocks[group] = self._grant_group(record, group, wanted[group], demand)
                size_class = self.plan.class_of_group[group]
                dirty[group] = self.store.slabs.dirty_among(size_class, blocks[group])
        return Grant(tuple(blocks), tuple(dirty))

    def _grant_group(
        self, record: RequestRecord, group: GroupId, num_blocks: int, demand: Demand
    ) -> list[BlockId]:
        size_class = self.plan.class_of_group[group]
        near = record.last_slab.get(size_class)
        blocks = self.store.grant(size_class, num_blocks, near, demand)
        self._evacuator.pin(size_class, blocks)
        record.last_slab[size_class] = self.store.slabs.slab_of(size_class, blocks[-1])
        record.granted[group] += blocks
        self.num_granted[size_class] += num_blocks
        return blocks

    def _demand(self, record: RequestRecord, wanted: Sequence[int]) -> Demand:
        """What a grant hands out, and what else has to fit afterwards, where that fits now."""
        for group, blocks in enumerate(wanted):
            if blocks:
                self._note_granted(record, GroupId(group), blocks)
        now = self._sizing.by_class(wanted)
        promised = [blocks + later for blocks, later in zip(now, self.owed, strict=True)]
        if not self.store.fits(promised, self._nothing_touched):
            promised = list(now)
        return Demand(now, promised)

    def _make_promise(self, record: RequestRecord, promise: Promise) -> None:
        """A request was let in because all of it fits."""
        record.promise = promise
        for group, size_class in enumerate(self.plan.class_of_group):
            self.owed[size_class] += promise.owed(GroupId(group))

    def _note_granted(self, record: RequestRecord, group: GroupId, num_blocks: int) -> None:
        """A request is owed less once it was granted blocks, and more when it returned them."""
        size_class = self.plan.class_of_group[group]
        self.owed[size_class] -= record.promise.owed(group)
        record.promise.granted(group, num_blocks)
        self.owed[size_class] += record.promise.owed(group)

    def _new_record(self) -> RequestRecord:
        return RequestRecord.empty(len(self.plan.groups))

    def _count_lookup(self, record: RequestRecord) -> None:
        """A lookup counts once, when its first blocks are spent or committed."""
        if record.query_tokens:
            self.totals.admissions += 1
            self.totals.query_tokens += record.query_tokens
            self.totals.hit_tokens += record.hit_tokens
            record.query_tokens = 0

    def _record(self, handle: Handle) -> RequestRecord:
        record = self.requests.get(handle)
        if record is None:
            raise UsageError(Reason.UNKNOWN_REQUEST, f"there is no request {handle}")
        return record


def _is_shortage(answer: Admission | Refusal) -> bool:
    return isinstance(answer, Refusal) and answer.cause is RefusalCause.SHORTAGE
