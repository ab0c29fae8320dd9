"""The data path over gRPC: transport only."""

import asyncio
import gc
import logging
import time
from collections.abc import AsyncIterator
from functools import partial
from typing import TYPE_CHECKING

import grpc

from kvquarry.v1alpha import pool_pb2, pool_pb2_grpc
from kvquarry_core.errors import Reason, UsageError
from kvquarry_server.attachment import Attachment
from kvquarry_server.begun import Begun
from kvquarry_server.conversion import lives
from kvquarry_server.conversion.batches import batch_from_wire
from kvquarry_server.conversion.outcomes import outcome_to_wire
from kvquarry_server.edge import Edge
from kvquarry_server.faults import ServiceError
from kvquarry_server.registry import Registry
from kvquarry_server.replies import Replies
from kvquarry_server.slices import Slices
from kvquarry_server.strangers import Strangers
from kvquarry_server.stream import EndableStream, is_end
from kvquarry_server.telemetry import Telemetry
from kvquarry_server.turns import Turns

if TYPE_CHECKING:
    OpenContext = grpc.aio.ServicerContext[pool_pb2.OpenPoolRequest, pool_pb2.OpenPoolResponse]
    CloseContext = grpc.aio.ServicerContext[pool_pb2.ClosePoolRequest, pool_pb2.ClosePoolResponse]
    AttachContext = grpc.aio.ServicerContext[pool_pb2.AttachRequest, pool_pb2.AttachResponse]

logger = logging.getLogger(__name__)


# A stream without a hello belongs to nobody, so nothing else would ever end it.
_HELLO_TIMEOUT_S = 10.0
# Turns are taken among those who asked for one, and while a message's batches follow each other at
# once nobody is heard asking. About a turn.
_UNHEARD_S = 0.001


class PoolServicer(pool_pb2_grpc.PoolServiceServicer):
    """Opens pools, and works on each through its attachment's stream."""

    def __init__(self, registry: Registry, boot_id: str, telemetry: Telemetry) -> None:
        self._registry = registry
        self._boot_id = boot_id
        self._telemetry = telemetry
        self._edge = Edge(telemetry)
        self._turns = Turns(time.perf_counter)
        self._strangers = Strangers(registry.policy.limits.num_strangers)

    async def OpenPool(  # noqa: N802
        self, request: pool_pb2.OpenPoolRequest, context: "OpenContext"
    ) -> pool_pb2.OpenPoolResponse:
        """See pool.proto."""
        async with self._edge.typed_errors("OpenPool", context):
            attachment = self._registry.open(lives.open_request_from_wire(request))
            # A collection that goes through a pool's long lists holds everybody up for tens of
            # milliseconds. What is frozen is left out, and freed when nobody refers to it any more:
            # test_a_dropped_pool_is_freed_without_the_garbage_collector.
            gc.freeze()
            return lives.opened_to_wire(self._boot_id, attachment, self._registry.policy)

    async def ClosePool(  # noqa: N802
        self, request: pool_pb2.ClosePoolRequest, context: "CloseContext"
    ) -> pool_pb2.ClosePoolResponse:
        """See pool.proto."""
        async with self._edge.typed_errors("ClosePool", context):
            caller = lives.close_request_from_wire(request)
            self._registry.close(caller.pool_id, caller.incarnation)
            return pool_pb2.ClosePoolResponse()

    async def Attach(  # noqa: N802
        self, requests: AsyncIterator[pool_pb2.AttachRequest], context: "AttachContext"
    ) -> None:
        """See pool.proto. Reads and writes go through ``context``."""
        async with self._edge.typed_errors("Attach", context):
            stream = EndableStream()
            with self._strangers.one_more():
                hello = await _first_message(stream, context)
            if is_end(hello):
                return
            caller = lives.hello_from_wire(hello)
            attachment = self._registry.attach(caller.pool_id, caller.incarnation, stream)
            try:
                # An earlier stream may have left in the middle of a long batch.
                await self._turns.finished(attachment.share)
                welcome = lives.welcome_to_wire(self._boot_id, attachment)
                await stream.step(partial(context.write, welcome))
                await self._serve(stream, attachment, context)
            finally:
                self._registry.detach(attachment, stream)

    async def _serve(
        self, stream: EndableStream, attachment: Attachment, context: "AttachContext"
    ) -> None:
        """Answer batches until the client ends the stream or somebody ends it for the client."""
        replies = Replies(stream, context.write)
        reading = Begun(context.read())
        try:
            while not is_end(request := await stream.step(reading.result)):
                # While this message is worked on, the next one is on its way.
                reading = Begun(context.read())
                await self._serve_message(stream, attachment, request, replies)
        finally:
            reading.close()
            replies.close()

    async def _serve_message(
        self,
        stream: EndableStream,
        attachment: Attachment,
        message: pool_pb2.AttachRequest,
        replies: Replies[pool_pb2.AttachResponse],
    ) -> None:
        heard_others_at = time.perf_counter()
        for batch in lives.batches_of(message):
            start = time.perf_counter()
            if start - heard_others_at > _UNHEARD_S:
                await stream.step(partial(asyncio.sleep, 0))
                heard_others_at = time.perf_counter()
            work = self._answer(stream, attachment, batch)
            response = await self._turns.do(attachment.share, work)
            self._telemetry.applied_batch(time.perf_counter() - start)
            if response is not None:
                await replies.write(response)
        await replies.written()

    def _answer(
        self, stream: EndableStream, attachment: Attachment, message: pool_pb2.Batch
    ) -> Slices[pool_pb2.AttachResponse | None]:
        # A newer stream may have been welcomed while this one waited for its turn.
        stream.check()
        batch = batch_from_wire(message)
        try:
            outcome = yield from attachment.apply_in_slices(batch)
            is_told = outcome.usage is not None
            response = outcome_to_wire(self._boot_id, outcome) if is_told else None
        except (UsageError, ServiceError):
            raise
        except Exception:
            # Half an operation may have been applied. A pool with wrong books hands one block to
            # two requests, so no engine may go on with it.
            logger.exception("bug in pool engine=%s", attachment.identity.engine)
            raise self._registry.condemn(attachment) from None
        if outcome.error is not None:
            self._telemetry.refused("Attach", outcome.error.reason.value)
        return response


async def _first_message(stream: EndableStream, context: "AttachContext") -> pool_pb2.AttachRequest:
    """What should be the hello, or the end of the stream.

    Raises:
        UsageError: It did not come.
    """
    try:
        async with asyncio.timeout(_HELLO_TIMEOUT_S):
            return await stream.step(context.read)
    except TimeoutError:
        raise UsageError(
            Reason.INVALID_ARGUMENT, f"a stream must say hello within {_HELLO_TIMEOUT_S:g} s"
        ) from None
