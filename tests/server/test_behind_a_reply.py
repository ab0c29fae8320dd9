"""What comes behind an answer is worked on while that is written, and neither harms the other."""

import asyncio
import gc

import pytest

from kvquarry.v1alpha import pool_pb2
from kvquarry_server.registry import Policy, Registry
from tests.server.doubles import FakeClock, ready_attachment
from tests.server.test_pool_servicer import Aborted, FakeCall, attach, batch, hello, serve


def test_what_comes_behind_an_answer_is_applied_while_that_is_written() -> None:
    registry = Registry(Policy(), FakeClock())
    attachment = ready_attachment(registry)
    message = batch(1)
    behind = message.following.add()
    behind.CopyFrom(batch(2).batch)
    behind.quiet = True

    class WatchedCall(FakeCall):
        async def write(self, response: pool_pb2.AttachResponse) -> None:
            await super().write(response)
            await asyncio.sleep(0)
            applied_when_written.append(attachment.last_batch_number)

    applied_when_written: list[int] = []
    call = WatchedCall(hello(attachment), message)
    serve(registry, call)
    assert applied_when_written == [0, 2]
    assert [response.revision for response in call.responses] == [0, 1]


def test_an_answer_on_its_way_arrives_though_what_comes_behind_it_is_refused() -> None:
    registry = Registry(Policy(), FakeClock())
    attachment = ready_attachment(registry)
    message = batch(1)
    message.following.add(number=7)

    class SlowCall(FakeCall):
        async def write(self, response: pool_pb2.AttachResponse) -> None:
            if response.HasField("result"):
                await asyncio.get_running_loop().create_task(asyncio.sleep(0.01))
            await super().write(response)

    call = SlowCall(hello(attachment), message)

    async def run() -> None:
        with pytest.raises(Aborted):
            await attach(registry, call)
        gc.collect()
        await asyncio.sleep(0.05)

    asyncio.run(run())
    assert call.reason == "OUT_OF_ORDER"
    assert [response.revision for response in call.responses] == [0, 1]
