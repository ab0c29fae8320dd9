"""One engine's membership in a pool: batches are applied in order, each exactly once.

The revision counts the operations that were applied since the pool was opened. A refusal for
want of blocks changes nothing and is not counted; neither is a mistake, nor a pin's end when its
time is over.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter

from kvquarry_core.errors import Reason, UsageError
from kvquarry_core.messages import REFUSALS, AdmitRequest, Ask
from kvquarry_core.observer import EvictionLog, UnheardLog
from kvquarry_core.plan import Plan
from kvquarry_core.policies import Policies, PolicyNames
from kvquarry_core.pool import Pool
from kvquarry_core.slot_use import check_empty_slots
from kvquarry_core.usage import usage_of
from kvquarry_core.work import TOKENS, Work
from kvquarry_server.application import apply_operation
from kvquarry_server.errors import WireError, wire_error
from kvquarry_server.faults import AnswerForgotten, OutOfOrder, ServiceError, TooManyRequests
from kvquarry_server.lease import Lease
from kvquarry_server.long_operations import apply_in_slices, is_long
from kvquarry_server.memory import AnswerLog
from kvquarry_server.operations import Batch, CompareBooks, Operation
from kvquarry_server.outcomes import Answer, BatchOutcome, Eviction
from kvquarry_server.slices import Slices, finished
from kvquarry_server.turn_order import Share
from kvquarry_server.workers import Roster

#: Evicted rows told in one answer: it is written in one go, and others wait for two milliseconds.
_MOST_EVICTIONS = 10_000
# Short operations between two yields.
_MANY_OPERATIONS = 16


@dataclass(frozen=True, slots=True)
class Identity:
    """Whose life an attachment is.

    Attributes:
        engine: The engine's name.
        incarnation: The n-th life of that engine.
        pool_id: The pool opened for that life.
        model: What is served, for people.
        earlier_was_attached: Whether the life before it, which it ended, had an open stream.
    """

    engine: str
    incarnation: int
    pool_id: str
    model: str
    earlier_was_attached: bool = False


@dataclass(frozen=True, slots=True)
class Terms:
    """What an attachment is opened with.

    Attributes:
        plan: How its pool is cut.
        names: The policies its pool goes by, for people.
        policies: The same, as objects of its own.
        work: What its model computes; None where nobody told.
        num_workers: Workers that must register before a block is handed out.
        hears_evictions: Whether its client is told what became unfindable.
        most_requests: Requests the pool may hold at a time.
    """

    plan: Plan
    names: PolicyNames
    policies: Policies
    work: Work | None
    num_workers: int
    hears_evictions: bool
    most_requests: int


class Attachment:
    """One life of one engine, and its pool: one attachment per pool for now."""

    def __init__(
        self, identity: Identity, terms: Terms, lease: Lease, clock: Callable[[], float]
    ) -> None:
        self.identity = identity
        self.lease = lease
        self.share = Share()
        self.roster = Roster(terms.plan, terms.num_workers)
        self.revision = 0
        self.last_batch_number = 0
        #: By kind, as told last; of no kind while the engine never told.
        self.empty_slots: Sequence[int] = ()
        self._evictions = EvictionLog() if terms.hears_evictions else UnheardLog()
        self.policies = terms.names
        self.work = terms.work
        self.pool = Pool(
            terms.plan,
            placement=terms.policies.placement,
            eviction=terms.policies.eviction,
            relocation=terms.policies.relocation,
            observer=self._evictions,
            pin_cap=terms.policies.pin_cap,
            work=terms.work or TOKENS,
        )
        self._clock = clock
        self._answers = AnswerLog()
        self._most_requests = terms.most_requests

    def apply(self, batch: Batch) -> BatchOutcome:
        """Apply a batch in one go; see :meth:`apply_in_slices`."""
        return finished(self.apply_in_slices(batch))

    def apply_in_slices(self, batch: Batch) -> Slices[BatchOutcome]:
        """Apply a batch, or return the first answer of one that was applied before.

        Operations are applied until one is a mistake; the batch counts as applied even so. Work on
        other attachments may go on wherever this yields, but not on this one: once begun, a batch
        must be brought to its end before the next.

        Raises:
            OutOfOrder: The batch is neither the next one nor a repetition.
            AnswerForgotten: It is a repetition, but too old.
            UsageError: What it says of empty slots cannot be; nothing was applied.
        """
        if batch.number <= self.last_batch_number:
            return self._repeat(batch.number)
        if batch.number != self.last_batch_number + 1:
            raise OutOfOrder(
                f"batch {batch.number} came after batch {self.last_batch_number}; send the "
                "batches in between first"
            )
        if batch.empty_slots:
            check_empty_slots(self.pool.plan, batch.empty_slots)
        outcome = yield from self._apply_next(batch)
        self.empty_slots = batch.empty_slots or self.empty_slots
        self._answers.keep(outcome)
        return outcome

    def pass_time(self) -> None:
        """Let the pool know how late it is."""
        self.pool.note_time(self._clock())

    def _repeat(self, number: int) -> BatchOutcome:
        if number < 1:
            raise OutOfOrder(f"batches are numbered from 1, not {number}")
        outcome = self._answers.find(number)
        if outcome is None:
            raise AnswerForgotten(
                f"the answer to batch {number} is no longer kept; the last one applied is "
                f"{self.last_batch_number}"
            )
        return outcome

    def _apply_next(self, batch: Batch) -> Slices[BatchOutcome]:
        self.last_batch_number = batch.number
        self.pass_time()
        answers: list[Answer] = []
        error: WireError | None = None
        index = 0
        try:
            for operation in batch.operations:
                self._check_allowed(operation)
                if is_long(operation):
                    answer = yield from apply_in_slices(self.pool, operation)
                else:
                    answer = apply_operation(self.pool, operation)
                self.revision += not isinstance(answer, REFUSALS)
                index += 1
                if answer is not None:
                    answers.append(answer)
                if answer is not None or index % _MANY_OPERATIONS == 0:
                    yield
        except (UsageError, ServiceError) as mistake:
            error = wire_error(mistake, operation_index=str(index))
        nobody_waits = batch.is_quiet and error is None and len(self._evictions) < _MOST_EVICTIONS
        return BatchOutcome(
            number=batch.number,
            revision=self.revision,
            answers=tuple(answers),
            error=error,
            evictions=() if nobody_waits else self._drain_evictions(),
            usage=None if nobody_waits else usage_of(self.pool),
        )

    def _drain_evictions(self) -> tuple[Eviction, ...]:
        """What can no longer be found, in order; neighbours of one kind together."""
        forgotten = self._evictions.drain(self.pool.store.index, _MOST_EVICTIONS)
        return tuple(
            Eviction(kind, tuple(block_hash for _, block_hash in rows))
            for kind, rows in groupby(forgotten, key=itemgetter(0))
        )

    def _check_allowed(self, operation: Operation) -> None:
        """No block is handed out before all workers agree, and requests are bounded in number."""
        if isinstance(operation, CompareBooks) and operation.revision != self.revision:
            raise UsageError(
                Reason.BOOKS_DIFFER,
                f"the pool is at revision {self.revision}, its client at {operation.revision}: "
                "one of them has a bug",
            )
        if isinstance(operation, Ask):
            self.roster.check_complete()
        if isinstance(operation, AdmitRequest) and len(self.pool.requests) >= self._most_requests:
            raise TooManyRequests(
                f"the pool holds {self._most_requests} requests; free some of them first"
            )
