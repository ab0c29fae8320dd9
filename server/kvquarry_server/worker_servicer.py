"""Worker registration over gRPC: transport only."""

from typing import TYPE_CHECKING

import grpc

from kvquarry.v1alpha import worker_pb2, worker_pb2_grpc
from kvquarry_server.conversion import lives
from kvquarry_server.edge import Edge
from kvquarry_server.registry import Registry
from kvquarry_server.telemetry import Telemetry

if TYPE_CHECKING:
    RegisterContext = grpc.aio.ServicerContext[
        worker_pb2.RegisterWorkerRequest, worker_pb2.RegisterWorkerResponse
    ]


class WorkerServicer(worker_pb2_grpc.WorkerServiceServicer):
    """Takes down what each worker says of its memory."""

    def __init__(self, registry: Registry, boot_id: str, telemetry: Telemetry) -> None:
        self._registry = registry
        self._boot_id = boot_id
        self._edge = Edge(telemetry)

    async def RegisterWorker(  # noqa: N802
        self, request: worker_pb2.RegisterWorkerRequest, context: "RegisterContext"
    ) -> worker_pb2.RegisterWorkerResponse:
        """See worker.proto."""
        async with self._edge.typed_errors("RegisterWorker", context):
            caller = lives.registering_from_wire(request)
            attachment = self._registry.find(caller.pool_id, caller.incarnation)
            attachment.roster.register(lives.worker_from_wire(request))
            return lives.registered_to_wire(self._boot_id, attachment)
