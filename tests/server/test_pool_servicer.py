"""The stream's way through the servicer, with a call that is a list of messages."""

import asyncio
import logging
from typing import NoReturn

import grpc
import pytest

from kvquarry.v1alpha import pool_pb2, status_pb2
from kvquarry_server.attachment import Attachment
from kvquarry_server.pool_servicer import PoolServicer
from kvquarry_server.registry import Policy, Registry
from kvquarry_server.telemetry import NULL_TELEMETRY
from tests.server.doubles import FakeClock, ready_attachment


class Aborted(Exception):
    """How gRPC ends a handler that aborts."""


class FakeCall:
    """A client that has sent all it will ever send."""

    def __init__(self, *messages: pool_pb2.AttachRequest) -> None:
        self.responses: list[pool_pb2.AttachResponse] = []
        self.reason = ""
        self._messages = list(messages)

    async def read(self) -> object:
        if self._messages:
            return self._messages.pop(0)
        return grpc.aio.EOF  # type: ignore[attr-defined]

    async def write(self, response: pool_pb2.AttachResponse) -> None:
        self.responses.append(response)

    async def abort(
        self, code: grpc.StatusCode, message: str, trailers: tuple[tuple[str, bytes], ...]
    ) -> NoReturn:
        ((_, details),) = trailers
        status = status_pb2.StatusDetails.FromString(details)
        assert (status.code, status.message) == (code.value[0], message)
        self.reason = status_pb2.ErrorInfo.FromString(status.details[0].value).reason
        raise Aborted


def hello(attachment: Attachment) -> pool_pb2.AttachRequest:
    identity = attachment.identity
    return pool_pb2.AttachRequest(
        hello=pool_pb2.Hello(pool_id=identity.pool_id, incarnation=identity.incarnation)
    )


def batch(number: int) -> pool_pb2.AttachRequest:
    operation = pool_pb2.Operation(
        admit=pool_pb2.Admit(handle=number, token_count=4, max_grant_tokens=4)
    )
    return pool_pb2.AttachRequest(batch=pool_pb2.Batch(number=number, operations=[operation]))


def serve(registry: Registry, call: FakeCall) -> None:
    servicer = PoolServicer(registry, "boot", NULL_TELEMETRY)
    asyncio.run(servicer.Attach(None, call))  # type: ignore[arg-type]


def test_every_message_has_one_response_in_order() -> None:
    registry = Registry(Policy(), FakeClock())
    attachment = ready_attachment(registry)
    call = FakeCall(hello(attachment), batch(1), batch(2))
    serve(registry, call)
    assert [response.WhichOneof("message") for response in call.responses] == [
        "welcome",
        "result",
        "result",
    ]
    assert [response.revision for response in call.responses] == [0, 1, 2]
    assert {response.boot_id for response in call.responses} == {"boot"}
    assert not attachment.lease.is_held


def test_a_bug_drops_the_pool_rather_than_go_on_with_wrong_books(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    registry = Registry(Policy(), FakeClock())
    attachment = ready_attachment(registry)
    monkeypatch.setattr(attachment.pool.allocator, "secure", lambda demand: demand.missing)
    call = FakeCall(hello(attachment), batch(1), batch(2))
    with pytest.raises(Aborted), caplog.at_level(logging.ERROR):
        serve(registry, call)
    assert call.reason == "POOL_BROKEN"
    assert registry.attachments == []
    assert "missing" in caplog.text
    other = ready_attachment(registry, "other")
    call = FakeCall(hello(other), batch(1))
    serve(registry, call)
    assert call.responses[-1].result.answers[0].HasField("admission")


def test_the_lease_begins_to_run_however_the_stream_ends() -> None:
    registry = Registry(Policy(), FakeClock())
    attachment = ready_attachment(registry)
    with pytest.raises(Aborted):
        serve(registry, FakeCall(hello(attachment), batch(7)))
    assert not attachment.lease.is_held
    assert attachment.lease.remaining_s(now=registry.clock()) == registry.policy.lease_s


class SilentCall(FakeCall):
    """A client that opens a stream and says nothing."""

    async def read(self) -> object:
        await asyncio.sleep(60)
        raise AssertionError("nobody ends the stream")


def test_a_stream_that_does_not_say_hello_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kvquarry_server.pool_servicer._HELLO_TIMEOUT_S", 0.05)
    call = SilentCall()
    with pytest.raises(Aborted):
        serve(Registry(Policy(), FakeClock()), call)
    assert call.reason == "INVALID_ARGUMENT"


def test_an_attached_stream_may_be_silent_for_as_long_as_it_likes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("kvquarry_server.pool_servicer._HELLO_TIMEOUT_S", 0.05)
    registry = Registry(Policy(), FakeClock())
    attachment = ready_attachment(registry)

    class SlowCall(FakeCall):
        async def read(self) -> object:
            if self.responses:
                await asyncio.sleep(0.2)
            return await super().read()

    call = SlowCall(hello(attachment), batch(1))
    serve(registry, call)
    assert len(call.responses) == 2
