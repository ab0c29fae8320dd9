"""The edge of the service: here, and only here, an error becomes a gRPC status."""

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import grpc
from google.protobuf.message import DecodeError

from kvquarry_core.errors import Reason, UsageError
from kvquarry_server.errors import DETAILS_TRAILER, wire_error
from kvquarry_server.faults import ServiceError
from kvquarry_server.telemetry import Telemetry

logger = logging.getLogger(__name__)


class Edge:
    """Turns errors into statuses and counts them."""

    def __init__(self, telemetry: Telemetry) -> None:
        self._telemetry = telemetry

    @asynccontextmanager
    async def typed_errors(
        self, method: str, context: "grpc.aio.ServicerContext[Any, Any]"
    ) -> AsyncIterator[None]:
        """End the call with the typed status of an error raised inside.

        Anything that is not an error of ours is left to gRPC, which says UNKNOWN and logs it.
        """
        try:
            yield
        except (UsageError, ServiceError, DecodeError) as error:
            if isinstance(error, DecodeError):
                error = UsageError(Reason.INVALID_ARGUMENT, "these bytes are no message of ours")
            refusal = wire_error(error)
            self._telemetry.refused(method, refusal.reason.value)
            logger.info("refused method=%s reason=%s: %s", method, refusal.reason.value, error)
            await context.abort(
                refusal.code, refusal.message, ((DETAILS_TRAILER, refusal.details()),)
            )
