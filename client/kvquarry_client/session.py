"""The ledger behind a wire: operations reach the service once and in order, whatever breaks.

Every batch has a number. A batch is kept until its result, or that of a later one, was read; when
the connection breaks, all kept batches are sent again, and those the service knows already return
their first answers.
"""

import logging
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import TypeVar

import grpc

from kvquarry.v1alpha import pool_pb2, pool_pb2_grpc
from kvquarry_client import wire
from kvquarry_client.errors import (
    PoolLost,
    ServiceError,
    ServiceUnavailable,
    may_be_retried,
    typed_error,
)
from kvquarry_client.ledger import Eviction
from kvquarry_client.stream import BatchStream
from kvquarry_client.target import Target
from kvquarry_core.luxury import FreeMemory
from kvquarry_core.messages import Answer, Ask

_Result = TypeVar("_Result")
logger = logging.getLogger(__name__)

#: Quiet batches that are kept to be sent again; then one is answered, and they are forgotten. The
#: service keeps the answers of twice as many.
_MOST_UNREAD = 64
_RETRY_S = 0.2
_CLOSE_TIMEOUT_S = 1.0


class Session:
    """A :class:`~kvquarry_client.ledger.Ledger` over one attachment's stream. Not thread-safe."""

    def __init__(
        self,
        channel: grpc.Channel,
        target: Target,
        opened: pool_pb2.OpenPoolResponse,
        *,
        reconnect_timeout_s: float,
    ) -> None:
        self.num_exchanges = 0
        self._channel = channel
        self._target = target
        self._opened = opened
        self._reconnect_timeout_s = reconnect_timeout_s
        self._batch = wire.BatchBuilder()
        self._last_number = 0
        self._unread: deque[pool_pb2.Batch] = deque()
        self._evictions: list[Eviction] = []
        self._used_fraction = 0.0
        self._free_memory = wire.no_memory_known(opened.plan)
        self._stream: BatchStream | None = None
        # The buffering operations are the builder's own.
        self.take = self._batch.take
        self.settle = self._batch.settle
        self.give_back = self._batch.give_back
        self.commit = self._batch.commit
        self.drop = self._batch.drop
        self.free = self._batch.free
        self.begin_step = self._batch.begin_step
        self.forget = self._batch.forget

    def start(self) -> None:
        """Attach: from now on the open stream keeps the pool's lease."""
        self._connect()

    def ask(self, asks: Sequence[Ask]) -> list[Answer]:
        """See :meth:`Ledger.ask`."""
        for ask in asks:
            self._batch.ask(ask)
        return [wire.answer(one) for one in self._exchange().answers]

    def reset_cache(self) -> bool:
        """See :meth:`Ledger.reset_cache`."""
        self._batch.reset_cache()
        return self._exchange().answers[-1].reset_cache.done

    def flush(self) -> None:
        """See :meth:`Ledger.flush`."""
        if not self._batch:
            return
        if len(self._unread) < _MOST_UNREAD:
            self._send(quiet=True)
        else:
            number = self._send(quiet=False)
            self._read_until(number)

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
        if self._stream is None:
            return
        request = pool_pb2.ClosePoolRequest(
            pool_id=self._opened.pool_id, incarnation=self._opened.incarnation
        )
        self._stream.close()
        self._stream = None
        try:
            pool_pb2_grpc.PoolServiceStub(self._channel).ClosePool(
                request, timeout=_CLOSE_TIMEOUT_S
            )
        except grpc.RpcError as error:
            logger.info("the pool is left to its lease: %s", error.code())
        self._channel.close()

    def _exchange(self) -> pool_pb2.BatchResult:
        """Send what was gathered and wait for its result."""
        self.num_exchanges += 1
        return self._read_until(self._send(quiet=False))

    def _send(self, *, quiet: bool) -> int:
        self._last_number += 1
        batch = self._batch.finish(self._last_number, quiet=quiet)
        self._unread.append(batch)
        self._started().send(batch)
        return self._last_number

    def _started(self) -> BatchStream:
        assert self._stream is not None, "the session was not started"
        return self._stream

    def _read_until(self, number: int) -> pool_pb2.BatchResult:
        """The result of a batch; it also says that the quiet ones before it were applied."""
        result = self._read()
        while result.number < number:
            result = self._read()
        return result

    def _read(self) -> pool_pb2.BatchResult:
        """The next result."""
        response = None
        while response is None:
            try:
                response = self._started().read()
            except grpc.RpcError as error:
                self._recover(error)
        result = response.result
        while self._unread and self._unread[0].number <= result.number:
            self._unread.popleft()
        mistake = wire.batch_error(result)
        if mistake is not None:
            raise mistake
        self._evictions += wire.evictions(result)
        self._used_fraction = wire.used_fraction(result)
        self._free_memory = wire.free_memory(result)
        return result

    def _recover(self, error: grpc.RpcError) -> None:
        """Connect again and send everything whose result is still missing."""
        if not may_be_retried(error):
            raise typed_error(error) or error
        try:
            self._resume(error)
        except ServiceError as refusal:
            if refusal.reason != "UNKNOWN_POOL":
                raise
            raise PoolLost(
                f"kvquarry at {self._target} no longer knows this engine's pool: the service was "
                "restarted, or was out of reach for longer than its lease; restart the engine"
            ) from refusal

    def _resume(self, error: grpc.RpcError) -> None:
        logger.warning("lost kvquarry at %s (%s); connecting again", self._target, error.code())
        self._connect()
        for batch in self._unread:
            self._started().send(batch)
        logger.warning("found kvquarry at %s again", self._target)

    def _connect(self) -> None:
        """Open a stream; waits for a service that is away."""
        if self._stream is not None:
            self._stream.close()
        retry_while_away(self._start_stream, self._target, timeout_s=self._reconnect_timeout_s)

    def _start_stream(self) -> None:
        self._stream = BatchStream(self._channel, self._opened.pool_id, self._opened.incarnation)
        self._stream.start()


def retry_while_away(
    call: Callable[[], _Result], target: Target, *, timeout_s: float, report_every_s: float = 5.0
) -> _Result:
    """Call until somebody answers, and say every few seconds who is waited for.

    Raises:
        ServiceUnavailable: Nobody answered within ``timeout_s``; names the target.
        ServiceError: Somebody answered and refused.
    """
    start = time.monotonic()
    next_report = start
    while True:
        try:
            return call()
        except grpc.RpcError as error:
            if not may_be_retried(error):
                raise typed_error(error) or error from None
        waited = time.monotonic() - start
        if waited >= timeout_s:
            raise ServiceUnavailable(
                f"no kvquarry service answered at {target} within {timeout_s:.0f} s; start it with "
                f"`kvquarry serve --listen {target}`, or correct KVQUARRY_TARGET"
            )
        if time.monotonic() >= next_report:
            logger.warning("waiting for kvquarry at %s (%.0f of %.0f s)", target, waited, timeout_s)
            next_report = time.monotonic() + report_every_s
        time.sleep(_RETRY_S)
