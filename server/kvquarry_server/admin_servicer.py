"""The service's status over gRPC: transport only."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import grpc

from kvquarry.v1alpha import admin_pb2, admin_pb2_grpc
from kvquarry_server.conversion.statuses import status_to_wire
from kvquarry_server.status import ServiceStatus

if TYPE_CHECKING:
    StatusContext = grpc.aio.ServicerContext[
        admin_pb2.GetStatusRequest, admin_pb2.GetStatusResponse
    ]


class AdminServicer(admin_pb2_grpc.AdminServiceServicer):
    """Says what the service holds."""

    def __init__(self, snapshot: Callable[[], ServiceStatus]) -> None:
        self._snapshot = snapshot

    async def GetStatus(  # noqa: N802
        self, request: admin_pb2.GetStatusRequest, context: "StatusContext"
    ) -> admin_pb2.GetStatusResponse:
        """See admin.proto."""
        return status_to_wire(self._snapshot())
