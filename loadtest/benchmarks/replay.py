"""One simulated engine: sends a recording again and again, some messages ahead of the answers."""

import threading
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

import grpc

from kvquarry.v1alpha import pool_pb2
from kvquarry_client.channel import open_channel
from kvquarry_client.target import parse_target
from loadtest.benchmarks.made_pools import close_pool, open_pool
from loadtest.benchmarks.recording import RecordedMessage, Recording

_METHOD = "/kvquarry.v1alpha.PoolService/Attach"


@dataclass(frozen=True, slots=True)
class Pace:
    """How an engine sends.

    Attributes:
        num_in_flight: Unanswered messages it is ahead at most.
        admission_pause_s: Rest before each admission.
    """

    num_in_flight: int
    admission_pause_s: float = 0.0


@dataclass(slots=True)
class Tally:
    """What a replay came to.

    Attributes:
        num_effects: Blocks moved by messages that were answered, or followed by one that was.
        num_operations: Operations in them.
        num_messages: How many they were.
        num_mismatches: Answers that differ from the recorded ones.
        exchanges_s: From handing a message over until its answer is read, queueing included.
        admissions_s: Those of admissions.
        elapsed_s: Wall time.
    """

    num_effects: int = 0
    num_operations: int = 0
    num_messages: int = 0
    num_mismatches: int = 0
    exchanges_s: list[float] = field(default_factory=list)
    admissions_s: list[float] = field(default_factory=list)
    elapsed_s: float = 0.0


def replay(target: str, engine: str, recording: Recording, pace: Pace, run_s: float) -> Tally:
    """Replay until the time is over; every pass through the recording has a new pool.

    The first message is sent however late it is.
    """
    tally = Tally()
    opening = pool_pb2.OpenPoolRequest.FromString(recording.opening)
    opening.engine = engine
    start = time.perf_counter()
    with open_channel(parse_target(target)) as channel:
        while time.perf_counter() - start < run_s:
            opened = open_pool(channel, opening)
            _Pass(recording.messages, pace, start + run_s, tally).run(channel, opened)
            close_pool(channel, opened)
    tally.elapsed_s = time.perf_counter() - start
    return tally


class _Pass:
    """One stream: a thread of gRPC's sends, the caller reads."""

    def __init__(
        self, messages: tuple[RecordedMessage, ...], pace: Pace, end: float, tally: Tally
    ) -> None:
        self._messages = messages
        self._pace = pace
        self._end = end
        self._tally = tally
        self._free_places = threading.Semaphore(pace.num_in_flight)
        #: Answers to come: when their message was handed over, and its index.
        self._awaited: deque[tuple[float, int]] = deque()

    def run(self, channel: grpc.Channel, opened: pool_pb2.OpenPoolResponse) -> None:
        """Send until the recording or the time ends, and read every answer."""
        hello = pool_pb2.Hello(pool_id=opened.pool_id, incarnation=opened.incarnation)
        first = pool_pb2.AttachRequest(hello=hello).SerializeToString()
        attach = channel.stream_stream(_METHOD, request_serializer=None, response_deserializer=None)
        responses = iter(attach(self._requests(first)))
        next(responses)  # the welcome
        done = 0
        for response in responses:
            sent, index = self._awaited.popleft()
            self._answered(index, response, time.perf_counter() - sent)
            for message in self._messages[done : index + 1]:
                self._tally.num_effects += message.num_effects
                self._tally.num_operations += message.num_operations
            self._tally.num_messages += index + 1 - done
            done = index + 1
            self._free_places.release()

    def _answered(self, index: int, response: bytes, seconds: float) -> None:
        message = self._messages[index]
        self._tally.exchanges_s.append(seconds)
        if message.is_admission:
            self._tally.admissions_s.append(seconds)
        self._tally.num_mismatches += response != message.response

    def _requests(self, hello: bytes) -> Iterator[bytes]:
        yield hello
        for index, message in enumerate(self._messages):
            if message.response is not None:
                self._free_places.acquire()
                if index and time.perf_counter() >= self._end:
                    return
                if message.is_admission and self._pace.admission_pause_s:
                    time.sleep(self._pace.admission_pause_s)
                self._awaited.append((time.perf_counter(), index))
            yield message.request
