"""A call begins when it is made, and comes to the same as if it had been awaited at once."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import pytest

from kvquarry_server.begun import Begun


class Call:
    """Waits for a few futures, one after the other, and says how far it came."""

    def __init__(self, num_waits: int) -> None:
        loop = asyncio.get_running_loop()
        self.futures = [loop.create_future() for _ in range(num_waits)]
        self.heard: list[object] = []

    async def run(self) -> object:
        self.heard.append("begun")
        try:
            for future in self.futures:
                self.heard.append(await future)
        except asyncio.CancelledError:
            self.heard.append("cancelled")
            raise
        finally:
            self.heard.append("over")
        return "result"


async def fail() -> int:
    raise ValueError("at once")


async def fail_later() -> int:
    await asyncio.sleep(0)
    raise ValueError("later")


def in_a_loop(script: Callable[[], Awaitable[None]]) -> None:
    async def run() -> None:
        await asyncio.wait_for(script(), timeout=5)

    asyncio.run(run())


def test_it_begins_before_it_is_waited_for() -> None:
    async def script() -> None:
        call = Call(2)
        begun = Begun(call.run())
        assert call.heard == ["begun"]
        loop = asyncio.get_running_loop()
        loop.call_later(0.001, call.futures[0].set_result, 1)
        loop.call_later(0.002, call.futures[1].set_result, 2)
        assert await begun.result() == "result"
        assert call.heard == ["begun", 1, 2, "over"]

    in_a_loop(script)


def test_what_it_waits_for_may_come_while_others_work() -> None:
    async def script() -> None:
        call = Call(1)
        begun = Begun(call.run())
        call.futures[0].set_result(1)
        await asyncio.sleep(0.001)
        assert call.heard == ["begun"], "it goes on when it is waited for"
        assert await begun.result() == "result"

    in_a_loop(script)


@pytest.mark.parametrize("num_waits", [0, 1])
def test_others_are_heard_before_a_result_that_is_there(num_waits: int) -> None:
    async def script() -> None:
        call = Call(num_waits)
        begun = Begun(call.run())
        for future in call.futures:
            future.set_result(1)
        asyncio.get_running_loop().call_soon(call.heard.append, "other")
        await begun.result()
        assert "other" in call.heard

    in_a_loop(script)


@pytest.mark.parametrize(("call", "when"), [(fail, "at once"), (fail_later, "later")])
def test_what_it_raises_is_raised_where_it_is_waited_for(
    call: Callable[[], Coroutine[Any, Any, int]], when: str
) -> None:
    async def script() -> None:
        begun = Begun(call())
        with pytest.raises(ValueError, match=when):
            await begun.result()

    in_a_loop(script)


def test_a_cancellation_of_who_waits_is_its_own() -> None:
    async def script() -> None:
        call = Call(1)
        begun = Begun(call.run())
        waiting = asyncio.ensure_future(begun.result())
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert call.heard == ["begun", "cancelled", "over"]
        begun.close()

    in_a_loop(script)


@pytest.mark.parametrize("end", ["result", "error", "cancellation"])
def test_what_nobody_waits_for_comes_to_its_end_all_the_same(end: str) -> None:
    """Only there does gRPC free what it has received."""

    async def script() -> None:
        call = Call(2)
        begun = Begun(call.run())
        begun.close()
        begun.close()
        assert call.heard == ["begun"]
        call.futures[0].set_result(1)
        await asyncio.sleep(0.001)
        assert call.heard == ["begun", 1]
        match end:
            case "result":
                call.futures[1].set_result(2)
            case "error":
                call.futures[1].set_exception(ValueError("nobody hears this"))
            case _:
                call.futures[1].cancel()
        await asyncio.sleep(0.001)
        assert call.heard[-1] == "over"

    in_a_loop(script)


def test_closing_what_is_over_or_waits_for_no_future_is_harmless() -> None:
    async def script() -> None:
        over, between = Begun(Call(0).run()), Begun(asyncio.sleep(0))
        for begun in (over, between):
            begun.close()
            begun.close()

    in_a_loop(script)
