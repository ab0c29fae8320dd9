"""Reading a stream's next message while the last one is worked on.

gRPC hands a message over through a thread of its own and a round of the loop. A stream that asks
for the next message only when it is done with the last one waits for all of that again, though the
message may have been there all the time::

    read on demand   | work |....hand over....| work |
    read ahead       | work |.| work |
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from kvquarry_server.stream import is_end

Message = TypeVar("Message")


class ReadAhead(Generic[Message]):
    """Holds a message that was not asked for yet, and a second one at most.

    With those, it reads no more, and gRPC holds the client back. Nobody else reads the stream.
    """

    def __init__(self, read: Callable[[], Awaitable[Message]]) -> None:
        self._read = read
        self._inbox: asyncio.Queue[Message | Exception] = asyncio.Queue(maxsize=1)
        self._reading = asyncio.create_task(self._keep_reading())

    @property
    def has_next(self) -> bool:
        """Whether the next message is there: whoever takes it then does so at once."""
        return not self._inbox.empty()

    async def next(self) -> Message:
        """The next message, or gRPC's word for the end, after which there is none.

        Raises:
            Exception: What reading it raised.
        """
        message = await self._inbox.get()
        if isinstance(message, Exception):
            raise message
        return message

    def close(self) -> None:
        """Read no more; closing again is harmless."""
        self._reading.cancel()

    async def _keep_reading(self) -> None:
        try:
            while not is_end(message := await self._read()):
                await self._inbox.put(message)
        except Exception as failure:
            await self._inbox.put(failure)
        else:
            await self._inbox.put(message)
