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
        self._waiting: asyncio.Task[Any] | None = None

    def end(self, error: ServiceError) -> None:
        """End the stream with an error; the first one told stays."""
        if self._error is None:
            self._error = error
            if self._waiting is not None:
                self._waiting.cancel()

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
        task = self._waiting = asyncio.current_task()
        assert task is not None, "a step is taken by a task"
        try:
            result = await call()
        except asyncio.CancelledError:
            if self._error is None:
                raise
            task.uncancel()
            raise self._error from None
        finally:
            self._waiting = None
        self.check()
        return result
