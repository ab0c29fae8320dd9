"""The stream's way through the servicer, with a call that is a list of messages."""

import asyncio
import gc
import logging
import weakref
from typing import NoReturn

import grpc
import pytest

from kvquarry.v1alpha import pool_pb2, status_pb2
from kvquarry_server.attachment import Attachment
from kvquarry_server.limits import Limits
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


async def attach(registry: Registry, call: FakeCall) -> None:
    servicer = PoolServicer(registry, "boot", NULL_TELEMETRY)
    await servicer.Attach(None, call)  # type: ignore[arg-type]


def serve(registry: Registry, call: FakeCall) -> None:
    asyncio.run(attach(registry, call))


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


def test_many_batches_in_one_message_keep_nobody_else_waiting() -> None:
    """Each alone is done at once; together they take hundreds of turns."""
    registry = Registry(Policy(), FakeClock())
    long, other = ready_attachment(registry, "long"), ready_attachment(registry, "other")
    message = batch(1)
    for number in range(2, 10_001):
        message.following.add(number=number, quiet=True)
    done: list[str] = []

    async def attach(servicer: PoolServicer, name: str, call: FakeCall) -> None:
        await servicer.Attach(None, call)  # type: ignore[arg-type]
        done.append(name)

    async def serve_both() -> None:
        servicer = PoolServicer(registry, "boot", NULL_TELEMETRY)
        await asyncio.gather(
            attach(servicer, "long", FakeCall(hello(long), message)),
            attach(servicer, "other", FakeCall(hello(other), batch(1), batch(2))),
        )

    asyncio.run(serve_both())
    assert done == ["other", "long"]
    assert long.last_batch_number == 10_000


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


def long_batch(number: int) -> pool_pb2.AttachRequest:
    """So much to do that others have their turn meanwhile."""
    operations = [
        pool_pb2.Operation(
            admit=pool_pb2.Admit(handle=7, token_count=4, max_grant_tokens=4),
        ),
        *[pool_pb2.Operation(forget=pool_pb2.Forget(blocks=[1] * 20_000))] * 20,
    ]
    return pool_pb2.AttachRequest(batch=pool_pb2.Batch(number=number, operations=operations))


class LoggedCall(FakeCall):
    """Notes in a common log what was answered when."""

    def __init__(self, name: str, log: list[str], *messages: pool_pb2.AttachRequest) -> None:
        super().__init__(*messages)
        self._name = name
        self._log = log

    async def write(self, response: pool_pb2.AttachResponse) -> None:
        await super().write(response)
        self._log.append(self._name)


def test_an_engine_is_answered_while_the_long_batch_of_another_is_applied() -> None:
    registry = Registry(Policy(), FakeClock())
    flood, calm = (ready_attachment(registry, name) for name in ("flood", "calm"))
    log: list[str] = []
    calls = (
        LoggedCall("flood", log, hello(flood), long_batch(1)),
        LoggedCall("calm", log, hello(calm), batch(1), batch(2)),
    )
    servicer = PoolServicer(registry, "boot", NULL_TELEMETRY)

    async def run() -> None:
        await asyncio.gather(*(servicer.Attach(None, call) for call in calls))  # type: ignore[arg-type]

    asyncio.run(run())
    assert log == ["flood", "calm", "calm", "calm", "flood"]
    assert not calls[0].responses[-1].result.HasField("error")


def test_a_batch_whose_stream_breaks_is_finished_before_the_next_stream_begins() -> None:
    registry = Registry(Policy(), FakeClock())
    attachment = ready_attachment(registry)
    servicer = PoolServicer(registry, "boot", NULL_TELEMETRY)
    again = FakeCall(hello(attachment), long_batch(1), batch(2))

    async def run() -> None:
        broken = FakeCall(hello(attachment), long_batch(1))
        stream = asyncio.create_task(servicer.Attach(None, broken))  # type: ignore[arg-type]
        while not attachment.last_batch_number:  # noqa: ASYNC110 - the attachment knows no loop
            await asyncio.sleep(0)
        stream.cancel()
        with pytest.raises(asyncio.CancelledError):
            await stream
        assert attachment.revision < 21
        await servicer.Attach(None, again)  # type: ignore[arg-type]

    asyncio.run(run())
    welcome, repeated, following = again.responses
    assert welcome.welcome.last_batch_number == 1
    assert welcome.revision == repeated.revision == 21
    assert following.result.answers[0].HasField("admission")


def test_a_stream_whose_place_was_taken_while_it_waited_for_its_turn_begins_nothing() -> None:
    """Else both streams would apply one batch, and find each other's half done."""
    registry = Registry(Policy(), FakeClock())
    busy, attachment = (ready_attachment(registry, name) for name in ("busy", "engine"))
    attachment.share.mark_s = 0.01  # it has had some turns more than others
    servicer = PoolServicer(registry, "boot", NULL_TELEMETRY)
    calls = (
        FakeCall(hello(busy), long_batch(1)),
        FakeCall(hello(attachment), long_batch(1)),
        FakeCall(hello(attachment), long_batch(1), batch(2)),
    )

    async def run() -> list[BaseException | None]:
        attached = (servicer.Attach(None, call) for call in calls)  # type: ignore[arg-type]
        return await asyncio.gather(*attached, return_exceptions=True)

    ends = asyncio.run(run())
    _, older, newer = calls
    assert [type(end) for end in ends] == [type(None), Aborted, type(None)]
    assert older.reason == "SUPERSEDED"
    assert len(older.responses) == 1
    assert [one.result.number for one in newer.responses] == [0, 1, 2]
    assert newer.responses[-1].result.answers[0].HasField("admission")


def test_a_bug_in_a_later_slice_drops_the_pool_too(monkeypatch: pytest.MonkeyPatch) -> None:
    registry = Registry(Policy(), FakeClock())
    attachment = ready_attachment(registry)
    forgotten: list[object] = []

    def forget(*arguments: object) -> None:
        forgotten.append(arguments)
        assert len(forgotten) < 300, "a bug"

    monkeypatch.setattr(attachment.pool, "forget", forget)
    call = FakeCall(hello(attachment), long_batch(1))
    with pytest.raises(Aborted):
        serve(registry, call)
    assert call.reason == "POOL_BROKEN"
    assert registry.attachments == []


def test_streams_that_have_not_said_hello_are_bounded_in_number() -> None:
    registry = Registry(Policy(limits=Limits(num_strangers=2)), FakeClock())
    attachment = ready_attachment(registry)
    servicer = PoolServicer(registry, "boot", NULL_TELEMETRY)

    async def run() -> None:
        strangers = [
            asyncio.create_task(servicer.Attach(None, SilentCall()))  # type: ignore[arg-type]
            for _ in range(2)
        ]
        await asyncio.sleep(0)
        refused = FakeCall(hello(attachment))
        with pytest.raises(Aborted):
            await servicer.Attach(None, refused)  # type: ignore[arg-type]
        assert refused.reason == "TOO_MANY_STRANGERS"
        for stranger in strangers:
            stranger.cancel()
        await asyncio.gather(*strangers, return_exceptions=True)
        # Those who did say it are not counted.
        for _ in range(3):
            await servicer.Attach(None, FakeCall(hello(attachment), batch(1)))  # type: ignore[arg-type]

    asyncio.run(run())


def test_a_dropped_pool_is_freed_without_the_garbage_collector() -> None:
    registry = Registry(Policy(), FakeClock())
    attachment = ready_attachment(registry)
    call = FakeCall(hello(attachment), batch(1), batch(2))
    gc.collect()
    gc.disable()
    try:
        serve(registry, call)
        registry.close(attachment.identity.pool_id, attachment.identity.incarnation)
        pool = weakref.ref(attachment.pool)
        del attachment
        assert pool() is None
    finally:
        gc.enable()
