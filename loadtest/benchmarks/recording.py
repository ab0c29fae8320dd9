"""What an engine's client sends for a scripted run, as bytes that can be sent again.

The same batches on a new pool of the same plan get the same answers: the core draws no lots. So a
replay needs no client logic, and every answer can be compared with the recorded one.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import grpc

from kvquarry.v1alpha import pool_pb2
from kvquarry_client.channel import open_channel
from kvquarry_client.session import Session
from kvquarry_client.shadow import Shadow
from kvquarry_client.target import parse_target
from kvquarry_core.plan import make_plan
from loadtest.benchmarks.effects import EffectCounter
from loadtest.benchmarks.made_pools import GROUPS, POOL_BYTES, open_made_pool
from loadtest.benchmarks.mixes import Mix
from loadtest.engine_session import EngineSession, shadow_settings

_AHEAD_TOKENS = 256
_CONNECT_TIMEOUT_S = 10.0


@dataclass(frozen=True, slots=True)
class RecordedBatch:
    """One message to the service.

    Attributes:
        request: The ``AttachRequest``, serialized.
        response: The ``AttachResponse``, serialized; None for a quiet batch.
        num_effects: Blocks it moves.
        num_operations: Operations it holds.
        is_admission: Whether it asks to admit a request.
    """

    request: bytes
    response: bytes | None
    num_effects: int
    num_operations: int
    is_admission: bool


@dataclass(frozen=True, slots=True)
class Recording:
    """A run's batches in order, the whole life of a pool."""

    mix: str
    batches: tuple[RecordedBatch, ...]
    effects: dict[str, int]


def record(target: str, mix: Mix, *, num_steps: int, seed: int = 1) -> Recording:
    """Run a made-up engine for some steps against a service and keep what went over the wire."""
    channel = open_channel(parse_target(target))
    tape = _Tape()
    opened = open_made_pool(channel, f"recording-{mix.name}-{seed}")
    plan = make_plan(GROUPS, POOL_BYTES)
    session = Session(
        grpc.intercept_channel(channel, tape),
        parse_target(target),
        opened,
        plan,
        reconnect_timeout_s=_CONNECT_TIMEOUT_S,
    )
    session.start()
    settings = replace(shadow_settings(plan), ahead_tokens=_AHEAD_TOKENS)
    engine = EngineSession(Shadow(plan, session, settings), mix.requests(seed))
    for _ in range(num_steps):
        engine.step()
    engine.finish()
    session.close()
    return _recording(mix, tape)


def _recording(mix: Mix, tape: "_Tape") -> Recording:
    # The hello and the welcome belong to a pool that is gone.
    requests, responses = tape.requests[1:], iter(tape.responses[1:])
    counter = EffectCounter()
    batches = []
    for request in requests:
        response = None if request.batch.quiet else next(responses)
        num_effects = counter.add(request.batch, response.result if response else None)
        operations = request.batch.operations
        batches.append(
            RecordedBatch(
                request.SerializeToString(),
                response.SerializeToString() if response else None,
                num_effects,
                len(operations),
                any(one.HasField("admit") for one in operations),
            )
        )
    return Recording(mix.name, tuple(batches), dict(counter.totals))


class _Tape(grpc.StreamStreamClientInterceptor):  # type: ignore[type-arg]  # not at run time
    """Keeps every message of a stream, both ways."""

    def __init__(self) -> None:
        self.requests: list[pool_pb2.AttachRequest] = []
        self.responses: list[pool_pb2.AttachResponse] = []

    def intercept_stream_stream(  # type: ignore[override]  # one method's messages, not any
        self,
        continuation: Callable[..., Iterator[pool_pb2.AttachResponse]],
        client_call_details: grpc.ClientCallDetails,
        request_iterator: Iterator[pool_pb2.AttachRequest],
    ) -> "_TapedCall":
        """See grpc."""
        call = continuation(client_call_details, self._kept(request_iterator))
        return _TapedCall(call, self.responses)

    def _kept(self, requests: Iterator[pool_pb2.AttachRequest]) -> Iterator[pool_pb2.AttachRequest]:
        for request in requests:
            self.requests.append(request)
            yield request


class _TapedCall:
    """A call whose responses are kept."""

    def __init__(self, call: Any, responses: list[pool_pb2.AttachResponse]) -> None:  # noqa: ANN401
        self._call = call
        self._responses = responses
        self.cancel: Callable[[], object] = call.cancel
        self.add_callback: Callable[[Callable[[], None]], bool] = call.add_callback

    def __iter__(self) -> Iterator[pool_pb2.AttachResponse]:
        return self

    def __next__(self) -> pool_pb2.AttachResponse:
        response: pool_pb2.AttachResponse = next(self._call)
        self._responses.append(response)
        return response
