"""A stream can be ended in any step, and nothing is done in its name after that."""

import asyncio

import pytest

from kvquarry_server.faults import Draining, StaleIncarnation, Superseded
from kvquarry_server.stream import EndableStream


async def soon(value: int) -> int:
    await asyncio.sleep(0)
    return value


def test_a_step_returns_what_it_waited_for() -> None:
    async def run() -> int:
        return await EndableStream().step(lambda: soon(7))

    assert asyncio.run(run()) == 7


def test_a_stream_that_waits_ends_with_the_first_error_it_is_told() -> None:
    async def run() -> None:
        stream = EndableStream()
        loop = asyncio.get_running_loop()
        loop.call_soon(stream.end, Superseded("first"))
        loop.call_soon(stream.end, Draining("second"))
        with pytest.raises(Superseded, match="first"):
            await asyncio.wait_for(stream.step(lambda: asyncio.sleep(60)), timeout=5)

    asyncio.run(run())


def test_an_ended_stream_takes_no_further_step() -> None:
    async def run() -> None:
        stream = EndableStream()
        stream.end(StaleIncarnation("over"))
        with pytest.raises(StaleIncarnation):
            await stream.step(lambda: soon(1))

    asyncio.run(run())


def test_what_arrived_just_before_the_end_is_not_acted_upon() -> None:
    async def run() -> None:
        stream = EndableStream()
        arrived: asyncio.Future[int] = asyncio.get_running_loop().create_future()

        async def read() -> int:
            return await arrived

        waiting = asyncio.create_task(stream.step(read))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        arrived.set_result(1)
        stream.end(Superseded("over"))
        with pytest.raises(Superseded):
            await waiting

    asyncio.run(run())


def test_a_cancelled_call_is_not_taken_for_an_ended_stream() -> None:
    async def run() -> None:
        waiting = asyncio.create_task(EndableStream().step(lambda: asyncio.sleep(60)))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting

    asyncio.run(run())
