"""Work of many streams on one thread, a slice at a time.

A slice is what is done before the clock is looked at and the time found to be over. Between two
slices of a long message others have their turn, in the order of
:class:`~kvquarry_server.turn_order.TurnOrder`.
"""

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

from kvquarry_server.slices import Slices
from kvquarry_server.turn_order import Share, TurnOrder

Result = TypeVar("Result")

# What an ordinary message takes, so that it is seldom interrupted.
_SLICE_S = 0.001


class Turns:
    """Lets everybody work in turn. One loop's tasks call it."""

    def __init__(self, clock: Callable[[], float], *, slice_s: float = _SLICE_S) -> None:
        self._clock = clock
        self._slice_s = slice_s
        self._order: TurnOrder[asyncio.Future[None]] = TurnOrder()
        self._is_calling = False
        self._unfinished: set[Share] = set()
        # The rest of work whose caller was cancelled.
        self._orphans: set[asyncio.Task[Any]] = set()

    async def do(self, share: Share, slices: Slices[Result]) -> Result:
        """Do some work in turn and return what it comes to; most often that is at once.

        Work that was begun is brought to its end, also when this call is cancelled.
        """
        if not self._order.goes_at_once(share):
            await self._stand_in_line(share)
        try:
            self._work(share, slices)
        except StopIteration as stop:
            result: Result = stop.value
            return result
        self._unfinished.add(share)
        return await self._do_rest(share, slices)

    async def finished(self, share: Share) -> None:
        """Wait until the end of work that was begun, whoever began it."""
        while share in self._unfinished:  # noqa: ASYNC110 - a slice of it is done in every round
            await asyncio.sleep(0)

    async def _do_rest(self, share: Share, slices: Slices[Result]) -> Result:
        try:
            while True:
                await self._stand_in_line(share)
                self._work(share, slices)
        except asyncio.CancelledError:
            orphan = asyncio.create_task(self._do_rest(share, slices))
            self._orphans.add(orphan)
            orphan.add_done_callback(self._orphans.discard)
            raise
        except BaseException as end:
            self._unfinished.discard(share)
            if not isinstance(end, StopIteration):
                raise
            result: Result = end.value
            return result

    def _work(self, share: Share, slices: Slices[Any]) -> None:
        """Work for a slice, on the wall clock: to read the thread's own takes a system call.

        Raises:
            StopIteration: The work is done; it carries the result.
        """
        start = self._clock()
        end = start + self._slice_s
        try:
            next(slices)
            while self._clock() < end:
                next(slices)
        finally:
            self._order.used(share, self._clock() - start)

    async def _stand_in_line(self, share: Share) -> None:
        place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._order.wait(share, place)
        self._call_soon()
        await place

    def _call_soon(self) -> None:
        if not self._is_calling:
            self._is_calling = True
            asyncio.get_running_loop().call_soon(self._call)

    def _call(self) -> None:
        """Call the next one, and go on calling, one a round of the loop, while anybody waits.

        So whoever is heard of between two calls can still go before the second.
        """
        self._is_calling = False
        place = self._order.call()
        if not place.done():  # else its stream was cancelled while it waited
            place.set_result(None)
        if self._order:
            self._call_soon()
