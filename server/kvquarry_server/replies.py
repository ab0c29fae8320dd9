"""A stream's answers on their way out, while the service works on what comes behind them.

To write takes a round through gRPC's threads. Whoever waits for that before he goes on has the
loop rest meanwhile, and the next question finds him late with his work::

    waited for at once    | work | write |..............| work behind |
    waited for later      | work | write | work behind |.|
"""

from collections.abc import Callable, Coroutine
from typing import Any, Generic, TypeVar

from kvquarry_server.begun import Begun
from kvquarry_server.stream import EndableStream

Reply = TypeVar("Reply")


class Replies(Generic[Reply]):
    """Writes answers one after the other, each of them while its caller goes on."""

    def __init__(
        self, stream: EndableStream, write: Callable[[Reply], Coroutine[Any, Any, None]]
    ) -> None:
        self._stream = stream
        self._write = write
        self._writing: Begun[None] | None = None

    async def write(self, reply: Reply) -> None:
        """Begin to write, once what was written before is gone.

        Raises:
            ServiceError: The stream was told to end.
        """
        await self.written()
        self._stream.check()
        self._writing = Begun(self._write(reply))

    async def written(self) -> None:
        """Wait until everything is written: a client that reads nothing is sent no more.

        Raises:
            ServiceError: The stream was told to end.
        """
        if self._writing is not None:
            await self._stream.step(self._writing.result)
            self._writing = None

    def close(self) -> None:
        """Nobody waits any more."""
        if self._writing is not None:
            self._writing.close()
