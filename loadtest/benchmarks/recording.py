"""What an engine's client sends for a scripted run, as bytes that can be sent again.

The same batches on a new pool of the same plan get the same answers: the core draws no lots. So a
replay needs no client logic, and every answer can be compared with the recorded one.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import grpc

from kvquarry.v1alpha import pool_pb2
from kvquarry_client.channel import open_channel
from kvquarry_client.session import Session
from kvquarry_client.shadow import Shadow
from kvquarry_client.target import parse_target
from kvquarry_core.plan import make_plan
from loadtest.benchmarks.effects import EffectCounter
from loadtest.benchmarks.made_pools import GROUPS, POOL_BYTES, made_opening, open_pool
from loadtest.benchmarks.mixes import Mix
from loadtest.benchmarks.tape import Said, Tape
from loadtest.engine_session import EngineSession, shadow_settings

_AHEAD_TOKENS = 256
_CONNECT_TIMEOUT_S = 10.0


@dataclass(frozen=True, slots=True)
class RecordedMessage:
    """One message to the service: a batch, or several.

    Attributes:
        request: The ``AttachRequest``, serialized.
        response: The ``AttachResponse``, serialized; None where all are quiet.
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
    """A run's messages in order, the whole life of a pool.

    Attributes:
        mix: Its name.
        source: Who said it.
        opening: The ``OpenPoolRequest`` of the pool, serialized.
        messages: What followed.
        effects: How many blocks were moved in which way.
    """

    mix: str
    source: str
    opening: bytes
    messages: tuple[RecordedMessage, ...]
    effects: dict[str, int]


def record(target: str, mix: Mix, *, num_steps: int, seed: int = 1) -> Recording:
    """Run a made-up engine for some steps against a service and keep what went over the wire."""
    said: dict[Said, list[bytes]] = {one: [] for one in Said}
    channel = grpc.intercept_channel(
        open_channel(parse_target(target)), Tape(lambda what, message: said[what].append(message))
    )
    opened = open_pool(channel, made_opening(f"recording-{mix.name}-{seed}"))
    plan = make_plan(GROUPS, POOL_BYTES)
    session = Session(
        channel, parse_target(target), opened, plan, reconnect_timeout_s=_CONNECT_TIMEOUT_S
    )
    session.start()
    settings = replace(shadow_settings(plan), ahead_tokens=_AHEAD_TOKENS)
    engine = EngineSession(Shadow(plan, session, settings), mix.requests(seed))
    for _ in range(num_steps):
        engine.step()
    engine.finish()
    session.close()
    return recording_of(mix.name, "made up", said)


def recording_of(mix: str, source: str, said: Mapping[Said, Sequence[bytes]]) -> Recording:
    """What a tape came to; what was never answered is left out."""
    # The hello and the welcome belong to a pool that is gone.
    requests = [pool_pb2.AttachRequest.FromString(one) for one in said[Said.REQUEST][1:]]
    responses = {
        response.result.number: response
        for response in map(pool_pb2.AttachResponse.FromString, said[Said.RESPONSE][1:])
    }
    last_number = max(responses)
    counter = EffectCounter()
    messages = [
        _recorded(request, responses, counter)
        for request in requests
        if request.batch.number <= last_number
    ]
    return Recording(mix, source, said[Said.OPENING][-1], tuple(messages), dict(counter.totals))


def _recorded(
    request: pool_pb2.AttachRequest,
    responses: Mapping[int, pool_pb2.AttachResponse],
    counter: EffectCounter,
) -> RecordedMessage:
    batches = [request.batch, *request.following]
    answers = [responses.get(one.number) for one in batches]
    # One at most: an engine waits for each answer.
    response = next(filter(None, answers), None)
    num_effects = sum(
        counter.add(batch, answer.result if answer else None)
        for batch, answer in zip(batches, answers, strict=True)
    )
    operations = [operation for one in batches for operation in one.operations]
    return RecordedMessage(
        request.SerializeToString(),
        response.SerializeToString() if response else None,
        num_effects,
        len(operations),
        any(one.HasField("admit") for one in operations),
    )
