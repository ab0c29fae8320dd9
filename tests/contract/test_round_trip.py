"""One request's life over the wire."""

import grpc
import pytest

from tests.contract.wire_engine import (
    ATTENTION,
    STATES,
    admit,
    begin_step,
    commit,
    free,
    ready_engine,
    reset_cache,
    take,
)

PROMPT = [b"0-4", b"4-8", b"8-12", b"12-16"]


def test_a_prompt_computed_once_is_found_again(channel: grpc.Channel, name: str) -> None:
    _, stream = ready_engine(channel, name)
    first = stream.exchange(admit(1, 18, PROMPT)).answers[0].admission
    assert first.hit_tokens == 0
    attention, states = (list(blocks.blocks) for blocks in first.grant.blocks)
    assert (len(attention), len(states)) == (5, 1)
    assert first.grant.all_dirty
    assert not first.grant.dirty

    result = stream.exchange(
        take(1, ATTENTION, 5),
        take(1, STATES, 1),
        *(commit(1, 0, PROMPT[index], attention[index]) for index in range(4)),
        commit(1, 1, PROMPT[3], states[0]),
        free(1),
        begin_step(),
    )
    assert not result.HasField("error")
    assert [usage.cached_block_count for usage in result.usage.size_classes] == [4, 1]
    assert result.usage.used_size_bytes == 0

    second = stream.exchange(admit(2, 18, PROMPT)).answers[0].admission
    assert second.hit_tokens == 16
    assert [list(blocks.blocks) for blocks in second.hit_blocks] == [attention[:4], states]
    result = stream.exchange(free(2), reset_cache())
    assert result.answers[0].reset_cache.done
    assert result.usage.size_classes[0].cached_block_count == 0
    assert [(one.kind, list(one.hashes)) for one in result.evictions] == [
        (0, PROMPT),
        (1, [PROMPT[3]]),
    ]


def test_what_does_not_fit_is_refused_with_the_numbers(channel: grpc.Channel, name: str) -> None:
    _, stream = ready_engine(channel, name)
    operation = admit(1, 4)
    operation.admit.must_fit_tokens = 100_000
    refusal = stream.exchange(operation).answers[0].refusal
    assert list(refusal.wanted_block_counts) == [25_000, 1]
    assert len(refusal.available_block_counts) == 2


def test_batches_may_be_sent_ahead_and_are_answered_in_order(
    channel: grpc.Channel, name: str
) -> None:
    _, stream = ready_engine(channel, name)
    for number in range(1, 301):
        stream.send(number, [admit(number, 4), free(number)])
    assert [stream.read().result.number for _ in range(300)] == list(range(1, 301))


def test_a_client_that_does_not_read_holds_back_only_itself(
    channel: grpc.Channel, name: str
) -> None:
    _, lazy = ready_engine(channel, f"{name}-lazy")
    for number in range(1, 2001):
        lazy.send(number, [admit(number, 140), free(number)])
    _, busy = ready_engine(channel, f"{name}-busy")
    assert len(busy.exchange(admit(1, 4)).answers) == 1
    assert [lazy.read().result.number for _ in range(2000)] == list(range(1, 2001))


def test_pools_never_see_each_other_s_blocks(channel: grpc.Channel, name: str) -> None:
    streams = [ready_engine(channel, f"{name}-{which}")[1] for which in ("one", "other")]
    results = [stream.exchange(admit(1, 8, PROMPT[:2])) for stream in streams]
    grants = [result.answers[0].admission.grant for result in results]
    assert grants[0] == grants[1]
    one, other = streams
    attention = list(grants[0].blocks[ATTENTION].blocks)
    one.exchange(
        take(1, ATTENTION, 2),
        take(1, STATES, 1),
        *(commit(1, 0, PROMPT[index], attention[index]) for index in range(2)),
        commit(1, 1, PROMPT[1], grants[0].blocks[STATES].blocks[0]),
        begin_step(),
    )
    assert one.exchange(admit(2, 9, PROMPT[:2])).answers[0].admission.hit_tokens == 8
    assert other.exchange(admit(2, 9, PROMPT[:2])).answers[0].admission.hit_tokens == 0
    assert other.exchange(free(1)).error.reason == ""
    assert one.exchange(take(1, ATTENTION, 0)).error.reason == ""


@pytest.mark.parametrize("ending", ["half-close", "cancel"])
def test_a_client_may_end_its_stream(channel: grpc.Channel, name: str, ending: str) -> None:
    engine, stream = ready_engine(channel, name)
    stream.exchange(admit(1, 4))
    if ending == "half-close":
        stream.end()
        assert list(stream.call) == []
        assert stream.call.code() is grpc.StatusCode.OK
    else:
        stream.call.cancel()
    again = engine.stream()
    assert again.start().welcome.last_batch_number == 1
