"""An answer is on its way while its caller goes on, and one at a time."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from kvquarry_server.faults import Superseded
from kvquarry_server.replies import Replies
from kvquarry_server.stream import EndableStream


class SlowCall:
    """A call whose writes take until somebody lets them pass."""

    def __init__(self) -> None:
        self.begun: list[int] = []
        self.passes = asyncio.Semaphore(0)

    async def write(self, reply: int) -> None:
        self.begun.append(reply)
        await self.passes.acquire()


class BrokenCall(SlowCall):
    """A call whose client is gone."""

    async def write(self, reply: int) -> None:
        await asyncio.sleep(0)
        raise ConnectionError("gone")


def in_a_loop(script: Callable[[], Awaitable[None]]) -> None:
    async def run() -> None:
        await asyncio.wait_for(script(), timeout=5)

    asyncio.run(run())


def replies_of(call: SlowCall, stream: EndableStream | None = None) -> Replies[int]:
    return Replies(stream or EndableStream(), call.write)


def test_a_write_is_begun_and_not_waited_for() -> None:
    async def script() -> None:
        call = SlowCall()
        replies = replies_of(call)
        await replies.write(1)
        assert call.begun == [1]
        call.passes.release()
        await replies.written()
        await replies.written()

    in_a_loop(script)


def test_the_next_one_waits_for_the_one_before() -> None:
    async def script() -> None:
        call = SlowCall()
        replies = replies_of(call)
        await replies.write(1)
        second = asyncio.create_task(replies.write(2))
        await asyncio.sleep(0.01)
        assert call.begun == [1]
        call.passes.release()
        await second
        assert call.begun == [1, 2]
        replies.close()

    in_a_loop(script)


def test_a_stream_that_is_ended_meanwhile_is_written_to_no_more() -> None:
    async def script() -> None:
        call, stream = SlowCall(), EndableStream()
        replies = replies_of(call, stream)
        await replies.write(1)
        asyncio.get_running_loop().call_soon(stream.end, Superseded("over"))
        with pytest.raises(Superseded):
            await replies.written()
        replies.close()
        assert call.begun == [1]

    in_a_loop(script)


def test_what_went_wrong_is_told_to_who_waits() -> None:
    async def script() -> None:
        replies = replies_of(BrokenCall())
        await replies.write(1)
        with pytest.raises(ConnectionError):
            await replies.written()
        replies.close()

    in_a_loop(script)


def test_nothing_is_begun_for_a_stream_that_was_ended() -> None:
    async def script() -> None:
        call, stream = SlowCall(), EndableStream()
        replies = replies_of(call, stream)
        stream.end(Superseded("over"))
        with pytest.raises(Superseded):
            await replies.write(1)
        assert call.begun == []

    in_a_loop(script)
