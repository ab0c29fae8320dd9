"""The ledger behind a wire: operations are gathered into numbered batches, answers unpacked."""

import logging
from collections.abc import Callable, Sequence

import grpc

from kvquarry.v1alpha import pool_pb2, pool_pb2_grpc
from kvquarry_client.answer_checks import AnswerChecks
from kvquarry_client.errors import Nonsense
from kvquarry_client.lasting_stream import LastingStream
from kvquarry_client.ledger import Eviction
from kvquarry_client.outgoing import Outgoing
from kvquarry_client.stream import BatchStream
from kvquarry_client.target import Target
from kvquarry_client.wire import plans, results
from kvquarry_client.wire.bearing import Gathered, Manners
from kvquarry_core.luxury import FreeMemory
from kvquarry_core.messages import AdmitRequest, Answer, Ask
from kvquarry_core.plan import Plan

logger = logging.getLogger(__name__)

#: Quiet batches that are kept to be sent again; then one is answered, and they are forgotten. The
#: service keeps the answers of twice as many.
_MOST_UNREAD = 64
#: What a step did is sent with what the next ones do, for so many steps at most, unless it is
#: much: then the service had better begin at once.
_MOST_WAITS = 8
_LEAST_WEIGHT = 32
_CLOSE_TIMEOUT_S = 1.0


class Session:
    """A :class:`~kvquarry_client.ledger.Ledger` over one attachment's stream. Not thread-safe."""

    def __init__(  # noqa: PLR0913 - what an attachment is, keyword-only where it is a choice
        self,
        channel: grpc.Channel,
        target: Target,
        opened: pool_pb2.OpenPoolResponse,
        plan: Plan,
        *,
        reconnect_timeout_s: float,
        hears_evictions: bool = True,
    ) -> None:
        self.num_exchanges = 0
        self._channel = channel
        self._opened = opened
        self._checks = AnswerChecks(plan)
        self._last_read = 0
        self._num_waits = 0
        self._evictions: list[Eviction] = []
        self._used_fraction = 0.0
        self._free_memory = results.no_memory_known(opened.plan)
        self._is_closed = False
        self._stream = LastingStream(self._new_stream, target, patience_s=reconnect_timeout_s)
        may_move = plans.policies_from_wire(opened.policies).may_move
        manners = Manners(moves_blocks=may_move, hears_evictions=hears_evictions)
        self._outgoing = Outgoing(self._stream, manners)
        self._batch = self._outgoing.batch
        # The buffering operations are the builder's own.
        self.take = self._batch.take
        self.settle = self._batch.settle
        self.give_back = self._batch.give_back
        self.commit = self._batch.commit
        self.drop = self._batch.drop
        self.free = self._batch.free
        self.begin_step = self._batch.begin_step
        self.forget = self._batch.forget
        self.unpin = self._batch.unpin

    def start(self) -> None:
        """Attach: from now on the open stream keeps the pool's lease."""
        self._stream.start()

    def ask(self, asks: Sequence[Ask]) -> list[Answer]:
        """See :meth:`Ledger.ask`."""
        return self._ask(asks, behind=())

    def ask_first(self, asks: Sequence[Ask]) -> list[Answer]:
        """See :meth:`Ledger.ask_first`; the service applies the rest behind the answer."""
        texts = [ask.hashes for ask in asks if isinstance(ask, AdmitRequest)]
        return self._ask(asks, self._outgoing.leave_behind(texts))

    def reset_cache(self) -> bool:
        """See :meth:`Ledger.reset_cache`."""
        self._batch.reset_cache()
        return results.is_cache_reset(self._exchange())

    def end_step(self) -> None:
        """See :meth:`Ledger.end_step`: a message costs the service more than what is in it."""
        if self._batch:
            self._num_waits += 1
            if self._num_waits >= _MOST_WAITS or self._batch.weight >= _LEAST_WEIGHT:
                self.flush()

    def flush(self) -> None:
        """See :meth:`Ledger.flush`."""
        if not self._batch:
            return
        if self._stream.num_unread < _MOST_UNREAD:
            self._send(quiet=True)
        else:
            self._read_until(self._send(quiet=False))

    def tell_empty_slots(self, count: Callable[[], Sequence[int]]) -> None:
        """See :meth:`Ledger.tell_empty_slots`."""
        self._outgoing.count_empty_slots = count

    def compare_books(self, digest: bytes) -> None:
        """See :meth:`Ledger.compare_books`."""
        self._batch.compare_books(self._outgoing.revision + len(self._batch), digest)

    def free_memory(self) -> FreeMemory:
        """See :meth:`Ledger.free_memory`; what was heard with the last answer."""
        return self._free_memory

    def used_fraction(self) -> float:
        """See :meth:`Ledger.used_fraction`."""
        return self._used_fraction

    def take_evictions(self) -> list[Eviction]:
        """See :meth:`Ledger.take_evictions`."""
        taken, self._evictions = self._evictions, []
        return taken

    def close(self) -> None:
        """See :meth:`Ledger.close`; a service that does not answer learns it from the lease.

        Closing again is harmless: the process's exit closes what is still open.
        """
        if self._is_closed:
            return
        self._is_closed = True
        request = pool_pb2.ClosePoolRequest(
            pool_id=self._opened.pool_id, incarnation=self._opened.incarnation
        )
        self._stream.close()
        try:
            pool_pb2_grpc.PoolServiceStub(self._channel).ClosePool(
                request, timeout=_CLOSE_TIMEOUT_S
            )
        except grpc.RpcError as error:
            logger.info("the pool is left to its lease: %s", error.code())
        self._channel.close()

    def _ask(self, asks: Sequence[Ask], behind: Sequence[Gathered]) -> list[Answer]:
        for ask in asks:
            self._batch.ask(ask)
        answers = results.answers(self._exchange(behind), len(asks))
        for ask, answer in zip(asks, answers, strict=True):
            self._checks.check(ask, answer)
        return answers

    def _exchange(self, behind: Sequence[Gathered] = ()) -> pool_pb2.BatchResult:
        """Send what was gathered, and more behind it, and wait for the first's result."""
        self.num_exchanges += 1
        return self._read_until(self._send(quiet=False, behind=behind))

    def _send(self, *, quiet: bool, behind: Sequence[Gathered] = ()) -> int:
        self._num_waits = 0
        return self._outgoing.send(quiet=quiet, behind=behind)

    def _read_until(self, number: int) -> pool_pb2.BatchResult:
        """The result of a batch; it also says that the quiet ones before it were applied."""
        result = self._read()
        while result.number < number:
            result = self._read()
        if result.number != number:
            raise Nonsense(f"batch {number} was answered as batch {result.number}")
        return result

    def _read(self) -> pool_pb2.BatchResult:
        """The next result."""
        result = self._stream.read()
        mistake = results.batch_error(result)
        if mistake is not None:
            raise mistake
        if result.number > self._last_read:
            self._evictions += results.evictions(result)
            self._outgoing.revision -= results.num_refused(result)
        self._last_read = result.number
        self._used_fraction = results.used_fraction(result)
        self._free_memory = results.free_memory(result)
        return result

    def _new_stream(self) -> BatchStream:
        return BatchStream(self._channel, self._opened.pool_id, self._opened.incarnation)
