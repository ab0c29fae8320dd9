"""``kvquarry status``: ask a running service what it holds."""

import grpc

from kvquarry.v1alpha import admin_pb2, admin_pb2_grpc
from kvquarry_server.conversion.statuses import Plain, plain
from kvquarry_server.settings import StatusSettings


class NoAnswer(Exception):
    """Nobody answered at the target, or not with a status; the message names the target."""


def fetch_status(settings: StatusSettings) -> dict[str, Plain]:
    """The status of the service at a target, under the wire's names.

    Raises:
        NoAnswer: There was none.
    """
    options = [("grpc.max_receive_message_length", -1), ("grpc.enable_http_proxy", 0)]
    with grpc.insecure_channel(str(settings.target), options=options) as channel:
        stub = admin_pb2_grpc.AdminServiceStub(channel)
        try:
            response = stub.GetStatus(admin_pb2.GetStatusRequest(), timeout=settings.timeout_s)
        except grpc.RpcError as error:
            raise NoAnswer(_explanation(settings, error)) from error
    return plain(response)


def _explanation(settings: StatusSettings, error: grpc.RpcError) -> str:
    code = error.code()
    if code in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED):
        return (
            f"no kvquarry service answers at {settings.target}; start one with "
            f"`kvquarry serve --listen {settings.target}`, or say where it is with --target or "
            "KVQUARRY_TARGET"
        )
    return f"what answers at {settings.target} is no kvquarry service: {code.name}"
