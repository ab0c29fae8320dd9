"""How long the service keeps a calm engine's admissions, on the clock of its own processor time.

No sockets and no other processes: the servicer reads messages from lists. The clock is the thread's
processor time, so neither the machine's other work nor the engines' own processes are in it: what
is left is whom the service lets wait for whom, and for how long at a time.
"""

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import grpc

from kvquarry.v1alpha import pool_pb2
from kvquarry_core.worker_layout import planned_views
from kvquarry_server.attachment import Attachment
from kvquarry_server.pool_servicer import PoolServicer
from kvquarry_server.registry import Policy, Registry
from kvquarry_server.telemetry import NULL_TELEMETRY
from kvquarry_server.workers import Worker
from loadtest.benchmarks.recording import RecordedMessage, Recording
from loadtest.benchmarks.samples import p50, p99
from loadtest.benchmarks.tables import progress, table

#: So long that the calm engine asks for less than its share beside the most floods. Alone it rests,
#: too: caches grow cold meanwhile.
_REST_S = 0.01
_FLOODS = (0, 1, 3)
_PATIENCE_S = 60.0


def own_time(recording: Recording, num_admissions: int) -> dict[str, Any]:
    """Times of a calm engine's admissions, alone and beside floods."""
    tell = progress(f"the service's own time, {recording.mix}")
    figures = {}
    for num_floods in _FLOODS:
        tell(f"{num_floods} floods")
        times = asyncio.run(_Scene(recording).run(num_floods, num_admissions))
        figures[num_floods] = {
            "p50_us": round(p50(times) * 1e6, 1),
            "p99_us": round(p99(times) * 1e6, 1),
        }
    alone = figures[0]["p99_us"]
    for figure in figures.values():
        figure["p99_to_alone"] = round(figure["p99_us"] / alone, 2)
    return {"mix": recording.mix, "admissions": num_admissions, "floods": figures}


def own_time_table(results: Sequence[dict[str, Any]]) -> str:
    """For people."""
    head = ("mix", "floods", "admissions", "p50 us", "p99 us", "p99 to alone")
    rows = [
        [one["mix"], floods, one["admissions"], *figures.values()]
        for one in results
        for floods, figures in one["floods"].items()
    ]
    return table("a calm engine's admissions, in the service's own processor time", head, rows)


class _Scene:
    """A service without a network."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self._registry = Registry(Policy(), time.monotonic)
        self._servicer = PoolServicer(self._registry, "own time", NULL_TELEMETRY)
        self._num_pools = 0
        self._opening_s = 0.0

    def clock(self) -> float:
        """Processor time; pools are opened and closed when engines start, not in between."""
        return time.thread_time() - self._opening_s

    async def run(self, num_floods: int, num_admissions: int) -> list[float]:
        """Seconds from an admission's arrival until its answer is written."""
        floods = [asyncio.create_task(self._flood()) for _ in range(num_floods)]
        times: list[float] = []
        while len(times) < num_admissions:
            call = _CalmCall(await self._opened(), self._recording.messages, self.clock)
            await self._attach(call)
            times += call.admissions_s
        for flood in floods:
            flood.cancel()
        await asyncio.gather(*floods, return_exceptions=True)
        return times[:num_admissions]

    async def _flood(self) -> None:
        while True:
            await self._attach(_Call(await self._opened(), self._recording.messages, self.clock))

    async def _attach(self, call: "_Call") -> None:
        await self._servicer.Attach(None, call)  # type: ignore[arg-type]  # all that is used of one
        begun = time.thread_time()
        identity = call.attachment.identity
        self._registry.close(identity.pool_id, identity.incarnation)
        self._opening_s += time.thread_time() - begun

    async def _opened(self) -> Attachment:
        begun = time.thread_time()
        opening = pool_pb2.OpenPoolRequest.FromString(self._recording.opening)
        self._num_pools += 1
        opening.engine = f"engine-{self._num_pools}"
        opened = await self._servicer.OpenPool(opening, None)  # type: ignore[arg-type]
        attachment = self._registry.find(opened.pool_id, opened.incarnation)
        plan = attachment.pool.plan
        views = tuple(planned_views(plan))
        attachment.roster.register(Worker(0, 1, "none", plan.pool_bytes, views, b"no tensors"))
        self._opening_s += time.thread_time() - begun
        return attachment


@dataclass
class _Call:
    """A client that has always sent its next message already."""

    attachment: Attachment
    messages: tuple[RecordedMessage, ...]
    clock: Callable[[], float]
    _next: Iterator[bytes] = field(init=False)

    def __post_init__(self) -> None:
        self._next = iter([self._hello(), *(message.request for message in self.messages)])

    async def read(self) -> object:
        """The next message; like every other it is heard of through the loop."""
        await asyncio.sleep(0)
        message = next(self._next, None)
        if message is None:
            return grpc.aio.EOF  # type: ignore[attr-defined]  # the stubs lack it
        return pool_pb2.AttachRequest.FromString(message)

    async def write(self, response: pool_pb2.AttachResponse) -> None:
        """As gRPC does."""
        response.SerializeToString()
        await asyncio.sleep(0)

    def _hello(self) -> bytes:
        identity = self.attachment.identity
        hello = pool_pb2.Hello(pool_id=identity.pool_id, incarnation=identity.incarnation)
        return pool_pb2.AttachRequest(hello=hello).SerializeToString()


@dataclass
class _CalmCall(_Call):
    """A client that waits for every answer, and rests before each message that is answered."""

    admissions_s: list[float] = field(default_factory=list)
    _num_read: int = 0
    _asked: RecordedMessage | None = None
    _arrived: float = 0.0
    _has_answer: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        super().__post_init__()
        self._has_answer.set()

    async def read(self) -> object:
        """The next message, when it is time for it: it arrives then, also if nobody looks."""
        sending = self.messages[self._num_read - 1 : self._num_read]  # none is the hello
        self._num_read += 1
        async with asyncio.timeout(_PATIENCE_S):  # an answer that was recorded must come
            await self._has_answer.wait()
        if sending and sending[0].response is not None:
            arrives = self.clock() + _REST_S
            while self.clock() < arrives:  # noqa: ASYNC110 - the loop knows no such clock
                await asyncio.sleep(0)
            self._asked, self._arrived = sending[0], arrives
            self._has_answer.clear()
        return await super().read()

    async def write(self, response: pool_pb2.AttachResponse) -> None:
        """An answer is there when it is written."""
        response.SerializeToString()
        if self._asked is not None:
            if self._asked.is_admission:
                self.admissions_s.append(self.clock() - self._arrived)
            self._asked = None
            self._has_answer.set()
        await asyncio.sleep(0)
