"""``kvquarry status``, ``pins`` and ``unpin``: ask a running service what it holds."""

from collections.abc import Callable
from typing import TypeVar

import grpc

from kvquarry.v1alpha import admin_pb2, admin_pb2_grpc
from kvquarry_server.addresses import Address
from kvquarry_server.conversion.statuses import Plain, plain
from kvquarry_server.failures import CommandFailed
from kvquarry_server.settings import StatusSettings, UnpinSettings

_Answer = TypeVar("_Answer")


class NoAnswer(CommandFailed):
    """Nobody answered at the target, or not with a status; the message names the target."""


def fetch_status(settings: StatusSettings) -> dict[str, Plain]:
    """The status of the service at a target, under the wire's names.

    Raises:
        NoAnswer: There was none.
    """

    def ask(stub: admin_pb2_grpc.AdminServiceStub) -> admin_pb2.GetStatusResponse:
        answer: admin_pb2.GetStatusResponse = stub.GetStatus(
            admin_pb2.GetStatusRequest(), timeout=settings.timeout_s
        )
        return answer

    return plain(_answer(settings.target, ask))


def fetch_pins(settings: StatusSettings) -> dict[str, Plain]:
    """The pins of the service at a target, under the wire's names.

    Raises:
        NoAnswer: There was no answer.
    """

    def ask(stub: admin_pb2_grpc.AdminServiceStub) -> admin_pb2.ListPinsResponse:
        answer: admin_pb2.ListPinsResponse = stub.ListPins(
            admin_pb2.ListPinsRequest(), timeout=settings.timeout_s
        )
        return answer

    return plain(_answer(settings.target, ask))


def unpin(settings: UnpinSettings) -> admin_pb2.UnpinResponse:
    """End pins; which there were.

    Raises:
        NoAnswer: There was no answer.
    """
    request = admin_pb2.UnpinRequest(pin_ids=settings.pin_ids, engine=settings.engine)

    def ask(stub: admin_pb2_grpc.AdminServiceStub) -> admin_pb2.UnpinResponse:
        answer: admin_pb2.UnpinResponse = stub.Unpin(request, timeout=settings.timeout_s)
        return answer

    return _answer(settings.target, ask)


def _answer(target: Address, ask: Callable[[admin_pb2_grpc.AdminServiceStub], _Answer]) -> _Answer:
    options = [("grpc.max_receive_message_length", -1), ("grpc.enable_http_proxy", 0)]
    with grpc.insecure_channel(str(target), options=options) as channel:
        try:
            return ask(admin_pb2_grpc.AdminServiceStub(channel))
        except grpc.RpcError as error:
            raise NoAnswer(_explanation(target, error)) from error


def _explanation(target: Address, error: grpc.RpcError) -> str:
    code = error.code()
    if code in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED):
        return (
            f"no kvquarry service answers at {target}; start one with "
            f"`kvquarry serve --listen {target}`, or say where it is with --target or "
            "KVQUARRY_TARGET"
        )
    return f"what answers at {target} is no kvquarry service: {code.name}"
