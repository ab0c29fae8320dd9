"""The service's status over gRPC: transport only."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import grpc

from kvquarry.v1alpha import admin_pb2, admin_pb2_grpc
from kvquarry_server.conversion.pins import pin_names_from_wire, pins_to_wire, unpinned_to_wire
from kvquarry_server.conversion.statuses import status_to_wire
from kvquarry_server.registry import Registry
from kvquarry_server.status import ServiceStatus, pins_of

if TYPE_CHECKING:
    StatusContext = grpc.aio.ServicerContext[
        admin_pb2.GetStatusRequest, admin_pb2.GetStatusResponse
    ]
    ListPinsContext = grpc.aio.ServicerContext[
        admin_pb2.ListPinsRequest, admin_pb2.ListPinsResponse
    ]
    UnpinContext = grpc.aio.ServicerContext[admin_pb2.UnpinRequest, admin_pb2.UnpinResponse]


class AdminServicer(admin_pb2_grpc.AdminServiceServicer):
    """Says what the service holds, and ends pins."""

    def __init__(self, registry: Registry, snapshot: Callable[[], ServiceStatus]) -> None:
        self._registry = registry
        self._snapshot = snapshot

    async def GetStatus(  # noqa: N802
        self, request: admin_pb2.GetStatusRequest, context: "StatusContext"
    ) -> admin_pb2.GetStatusResponse:
        """See admin.proto."""
        return status_to_wire(self._snapshot())

    async def ListPins(  # noqa: N802
        self, request: admin_pb2.ListPinsRequest, context: "ListPinsContext"
    ) -> admin_pb2.ListPinsResponse:
        """See admin.proto."""
        return pins_to_wire(pins_of(self._registry))

    async def Unpin(  # noqa: N802
        self, request: admin_pb2.UnpinRequest, context: "UnpinContext"
    ) -> admin_pb2.UnpinResponse:
        """See admin.proto."""
        return unpinned_to_wire(self._registry.unpin(pin_names_from_wire(request)))
