"""A message is read ahead, not many, and whatever ends a stream reaches whoever reads it."""

import asyncio
from collections.abc import Awaitable, Callable

import grpc
import pytest

from kvquarry_server.read_ahead import ReadAhead

EOF = grpc.aio.EOF  # type: ignore[attr-defined]  # the stubs lack it


class Wire:
    """Messages that are there already; what comes last is returned, or raised, for ever."""

    def __init__(self, *messages: object) -> None:
        self.num_read = 0
        self._messages = messages

    async def read(self) -> object:
        await asyncio.sleep(0)
        message = self._messages[min(self.num_read, len(self._messages) - 1)]
        self.num_read += 1
        if isinstance(message, Exception):
            raise message
        return message


async def rounds(number: int) -> None:
    """So many rounds of the loop."""
    for _ in range(number):
        await asyncio.sleep(0)


def read_by(script: Callable[[ReadAhead[object]], Awaitable[object]], wire: Wire) -> object:
    """What a script makes of a stream."""

    async def run() -> object:
        ahead = ReadAhead(wire.read)
        try:
            return await asyncio.wait_for(script(ahead), timeout=5)
        finally:
            ahead.close()

    return asyncio.run(run())


def test_messages_come_in_order_up_to_the_end() -> None:
    async def script(ahead: ReadAhead[object]) -> object:
        return [await ahead.next() for _ in range(4)]

    wire = Wire(1, 2, 3, EOF)
    assert read_by(script, wire) == [1, 2, 3, EOF]
    assert wire.num_read == 4, "nothing is read after the end"


def test_the_next_message_is_there_when_the_last_one_is_done_with() -> None:
    async def script(ahead: ReadAhead[object]) -> object:
        await ahead.next()
        before = ahead.has_next
        await rounds(5)
        return before, ahead.has_next

    assert read_by(script, Wire(1, 2, EOF)) == (False, True)


def test_a_client_that_is_not_served_is_held_back() -> None:
    async def script(ahead: ReadAhead[object]) -> object:
        await rounds(100)
        return ahead.has_next

    wire = Wire(1, 2, 3, 4, EOF)
    assert read_by(script, wire) is True
    # One lies ready, and one had been read when there was no room for it.
    assert wire.num_read == 2


def test_what_reading_raised_is_raised_in_its_place() -> None:
    async def script(ahead: ReadAhead[object]) -> object:
        first = await ahead.next()
        with pytest.raises(ValueError, match="no message"):
            await ahead.next()
        return first

    assert read_by(script, Wire(1, ValueError("no message"))) == 1


def test_closing_ends_a_read_that_waits() -> None:
    async def run() -> None:
        ended = asyncio.Event()

        async def read() -> int:
            try:
                await asyncio.sleep(60)
            finally:
                ended.set()
            return 1

        ahead = ReadAhead(read)
        await rounds(2)
        ahead.close()
        ahead.close()
        await asyncio.wait_for(ended.wait(), timeout=5)

    asyncio.run(run())
