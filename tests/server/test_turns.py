"""Work is done in slices and in turn, and what was begun is finished."""

import asyncio
from collections.abc import Iterator

import pytest

from kvquarry_server.slices import Slices
from kvquarry_server.turn_order import Share
from kvquarry_server.turns import Turns


def ticking() -> float:
    """A clock on which every look takes a slice."""
    return next(_ticks)


def _seconds() -> Iterator[float]:
    second = 0.0
    while True:
        yield second
        second += 1.0


_ticks = _seconds()


def work(name: str, num_slices: int, log: list[str]) -> Slices[str]:
    for _ in range(num_slices - 1):
        log.append(name)
        yield
    log.append(name)
    return f"{name} is done"


def turns() -> Turns:
    return Turns(ticking, slice_s=1.0)


def test_work_comes_to_its_result_in_however_many_slices() -> None:
    log: list[str] = []

    async def run() -> list[str]:
        lane, share = turns(), Share()
        return [await lane.do(share, work("a", slices, log)) for slices in (1, 5)]

    assert asyncio.run(run()) == ["a is done"] * 2
    assert log == ["a"] * 6


def test_others_have_their_turn_between_the_slices_of_long_work() -> None:
    log: list[str] = []

    async def run() -> None:
        lane = turns()
        await asyncio.gather(
            lane.do(Share(), work("long", 50, log)), lane.do(Share(), work("short", 1, log))
        )

    asyncio.run(run())
    assert log.index("short") == 1
    assert len(log) == 51


def test_several_who_never_rest_take_turns() -> None:
    log: list[str] = []

    async def run() -> None:
        lane = turns()
        await asyncio.gather(*(lane.do(Share(), work(name, 30, log)) for name in "abc"))

    asyncio.run(run())
    assert max(abs(log[:60].count(one) - log[:60].count("a")) for one in "bc") <= 1


def test_begun_work_is_finished_though_its_caller_is_cancelled() -> None:
    log: list[str] = []

    async def run() -> list[str]:
        lane, share = turns(), Share()
        caller = asyncio.create_task(lane.do(share, work("a", 10, log)))
        await asyncio.sleep(0)
        caller.cancel()
        with pytest.raises(asyncio.CancelledError):
            await caller
        assert len(log) < 10
        await lane.finished(share)
        return list(log)

    assert asyncio.run(run()) == ["a"] * 10


def test_one_who_is_cancelled_while_it_waits_holds_nobody_up() -> None:
    log: list[str] = []

    async def run() -> None:
        lane = turns()
        long = asyncio.create_task(lane.do(Share(), work("long", 10, log)))
        had_much = Share(mark_s=1000.0)
        gone = asyncio.create_task(lane.do(had_much, work("gone", 1, log)))
        await asyncio.sleep(0)
        gone.cancel()
        await asyncio.wait_for(lane.do(Share(), work("late", 3, log)), timeout=5)
        await asyncio.wait_for(long, timeout=5)

    asyncio.run(run())
    assert log.count("long") == 10
    assert "gone" not in log


def test_an_error_ends_work_in_any_slice() -> None:
    def broken(num_slices: int) -> Slices[None]:
        for _ in range(num_slices):
            yield
        raise ValueError("broken")

    async def run() -> None:
        lane, share = turns(), Share()
        for num_slices in (0, 3):
            with pytest.raises(ValueError, match="broken"):
                await lane.do(share, broken(num_slices))
            await asyncio.wait_for(lane.finished(share), timeout=5)

    asyncio.run(run())
