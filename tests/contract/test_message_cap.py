"""A message over the cap ends its call, and nothing else."""

from collections.abc import Iterator

import grpc
import pytest

from tests.contract.running_service import connected, running_service
from tests.contract.wire_engine import (
    admit,
    open_engine,
    open_request,
    ready_engine,
    refused,
)

CAP_BYTES = 1 << 20


@pytest.fixture(scope="module")
def capped() -> Iterator[grpc.Channel]:
    flags = ("--max-message-bytes", str(CAP_BYTES))
    with running_service(*flags) as service, connected(service.target) as channel:
        yield channel


def test_a_batch_over_the_cap_ends_its_stream_and_changes_nothing(capped: grpc.Channel) -> None:
    engine, stream = ready_engine(capped, "engine")
    stream.exchange(admit(1, 8))
    stream.send(2, [admit(2, 8, [b"h" * 32] * (CAP_BYTES // 32))])
    assert stream.failure().code is grpc.StatusCode.RESOURCE_EXHAUSTED
    again = engine.stream()
    assert again.start().welcome.last_batch_number == 1
    almost = [b"h" * 32] * (CAP_BYTES // 40)
    assert again.exchange(admit(2, 8, almost)).answers[0].HasField("admission")


def test_a_unary_message_over_the_cap_is_refused(capped: grpc.Channel) -> None:
    request = open_request("engine")
    request.model = "x" * CAP_BYTES
    with pytest.raises(grpc.RpcError) as failure:
        open_engine(capped, request)
    assert refused(failure.value).code is grpc.StatusCode.RESOURCE_EXHAUSTED


def test_the_default_cap_takes_a_prompt_of_a_quarter_million_blocks(
    channel: grpc.Channel, name: str
) -> None:
    _, stream = ready_engine(channel, name)
    operation = admit(1, 8, [b"h" * 32] * 250_000)
    assert 8 << 20 < operation.ByteSize() < 16 << 20
    assert stream.exchange(operation).answers[0].HasField("admission")
