"""An open stream that somebody else may end: for a newer stream, a closed pool or a drain."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import grpc

from kvquarry_server.faults import ServiceError

Result = TypeVar("Result")


def is_end(message: object) -> bool:
    """Whether a read found the end of a stream instead of a message."""
    return message is grpc.aio.EOF  # type: ignore[attr-defined]  # the stubs lack it


class EndableStream:
    """The steps of one stream, each of which ends early when the stream is told to end.

    The steps are reads and writes: a stream waits in one of them nearly always, in a read for its
    client's next batch, or in a write for a client that does not read its answers.
    """

    def __init__(self) -> None:
        self._error: ServiceError | None = None
        # The one that takes all steps, and whether it is in one.
        self._task: asyncio.Task[Any] | None = None
        self._is_waiting = False

    def end(self, error: ServiceError) -> None:
        """End the stream with an error; the first one told stays."""
        if self._error is None:
            self._error = error
            if self._task is not None and self._is_waiting:
                self._task.cancel()

    def check(self) -> None:
        """Nothing is begun for a stream that was told to end.

        Raises:
            ServiceError: It was.
        """
        if self._error is not None:
            raise self._error

    async def step(self, call: Callable[[], Awaitable[Result]]) -> Result:
        """Call and wait for a read or a write; one task takes all steps of a stream.

        Raises:
            ServiceError: The stream was told to end, before or meanwhile.
        """
        self.check()
        self._task = self._task or asyncio.current_task()
        assert self._task is not None, "a step is taken by a task"
        self._is_waiting = True
        try:
            result = await call()
        except asyncio.CancelledError:
            if self._error is None:
                raise
            self._task.uncancel()
            raise self._error from None
        finally:
            self._is_waiting = False
        self.check()
        return result
