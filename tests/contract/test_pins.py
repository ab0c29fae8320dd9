"""Pins through the wire, and the commands that show and end them."""

import json
import time

import grpc

from tests.contract.kvquarry_command import kvquarry
from tests.contract.running_service import RunningService, connected, running_service
from tests.contract.wire_engine import (
    ATTENTION,
    STATES,
    WireStream,
    admit,
    begin_step,
    commit,
    free,
    pin,
    ready_engine,
    take,
    unpin,
)

PROMPT = [b"0-4", b"4-8"]
#: What grows past all memory but what is pinned: 39 slabs of two states or four blocks each.
EVERYTHING = 4 * 150


def cache(stream: WireStream, handle: int, prompt: list[bytes]) -> None:
    """A request of eight tokens comes and goes."""
    grant = stream.exchange(admit(handle, 9)).answers[0].admission.grant
    blocks = list(grant.blocks[ATTENTION].blocks)
    stream.exchange(
        take(handle, ATTENTION, 2),
        take(handle, STATES, 1),
        *(commit(handle, 0, prompt[index], blocks[index]) for index in range(2)),
        commit(handle, 1, prompt[1], grant.blocks[STATES].blocks[0]),
        free(handle),
        begin_step(),
    )


def flood(stream: WireStream, handle: int) -> None:
    """A request takes all memory that it can get, and goes."""
    ask = admit(handle, EVERYTHING)
    while True:
        ask.admit.must_fit_tokens = ask.admit.max_grant_tokens
        if stream.exchange(ask).answers[0].HasField("admission"):
            break
        ask.admit.max_grant_tokens -= 4
    stream.exchange(free(handle))


def hit_tokens(stream: WireStream, handle: int, prompt: list[bytes]) -> int:
    found: int = stream.exchange(admit(handle, 9, prompt)).answers[0].admission.hit_tokens
    stream.exchange(free(handle))
    return found


def test_a_pinned_prefix_outlives_what_evicts_all_others(channel: grpc.Channel, name: str) -> None:
    _, stream = ready_engine(channel, name)
    other = [b"x", b"xy"]
    cache(stream, 1, PROMPT)
    cache(stream, 2, other)
    pinned = stream.exchange(pin("p", PROMPT)).answers[0].pinned
    assert pinned.token_count == 8
    stream.exchange(admit(3, 4), take(3, ATTENTION, 1))  # somebody runs, so no pin gives way
    for handle in range(10, 13):
        flood(stream, handle)
    assert hit_tokens(stream, 20, other) == 0
    assert hit_tokens(stream, 21, PROMPT) == 8
    stream.exchange(unpin("p"))
    for handle in range(30, 33):
        flood(stream, handle)
    assert hit_tokens(stream, 40, PROMPT) == 0


def test_a_pin_lapses_by_the_services_clock(channel: grpc.Channel, name: str) -> None:
    _, stream = ready_engine(channel, name)
    cache(stream, 1, PROMPT)
    before = stream.exchange().usage.used_size_bytes
    stream.exchange(pin("p", PROMPT, ttl_seconds=0.2))
    assert stream.exchange().usage.used_size_bytes > before
    time.sleep(0.3)
    assert stream.exchange().usage.used_size_bytes == before


def test_beyond_the_cap_a_pin_is_refused_with_the_numbers(name: str) -> None:
    with running_service("--pin-cap", "0.001") as service, connected(service.target) as channel:
        _, stream = ready_engine(channel, name)
        cache(stream, 1, PROMPT)
        refusal = stream.exchange(pin("p", PROMPT)).answers[0].pin_refusal
        assert refusal.cause == 2
        assert refusal.wanted_size_bytes > refusal.cap_size_bytes > 0
        assert refusal.pinned_size_bytes == 0


def test_a_priority_decides_what_goes_first(channel: grpc.Channel, name: str) -> None:
    """The older of two prompts stays, since its request had a higher priority."""
    _, stream = ready_engine(channel, name)
    wanted, other = [b"a", b"ab"], [b"x", b"xy"]
    ask = admit(1, 9)
    ask.admit.priority = 1
    grant = stream.exchange(ask).answers[0].admission.grant
    blocks = list(grant.blocks[ATTENTION].blocks)
    stream.exchange(
        take(1, ATTENTION, 2),
        take(1, STATES, 1),
        *(commit(1, 0, wanted[index], blocks[index]) for index in range(2)),
        commit(1, 1, wanted[1], grant.blocks[STATES].blocks[0]),
        free(1),
        begin_step(),
    )
    cache(stream, 2, other)
    tokens = 4
    while hit_tokens(stream, 100 + tokens, other):
        answer = stream.exchange(admit(1000 + tokens, tokens)).answers[0]
        assert answer.HasField("admission")
        stream.exchange(free(1000 + tokens))
        tokens += 4
    assert hit_tokens(stream, 5000, wanted) == 8


def test_operators_see_and_end_pins(
    service: RunningService, channel: grpc.Channel, name: str
) -> None:
    _, stream = ready_engine(channel, name)
    cache(stream, 1, PROMPT)
    stream.exchange(pin("mine", PROMPT))
    listed = kvquarry("pins", "--target", service.target)
    assert listed.returncode == 0, listed.stderr
    assert any(name in line and "mine" in line for line in listed.stdout.splitlines())
    (one,) = (
        one
        for one in json.loads(kvquarry("pins", "--json", "--target", service.target).stdout)["pins"]
        if one["engine"] == name
    )
    assert (one["pin_id"], one["token_count"]) == ("mine", 8)
    assert 0 < one["remaining_seconds"] <= 60
    ended = kvquarry("unpin", "mine", "--engine", name, "--target", service.target)
    assert (ended.returncode, ended.stdout) == (0, "1 pin ended\n")
    again = kvquarry("unpin", "mine", "--engine", name, "--target", service.target)
    assert again.returncode == 1
    assert again.stderr.startswith("kvquarry: there is no pin 'mine'; `kvquarry pins`")


def test_unpin_names_what_is_not_there_and_ends_the_rest(
    service: RunningService, channel: grpc.Channel, name: str
) -> None:
    _, stream = ready_engine(channel, name)
    cache(stream, 1, PROMPT)
    stream.exchange(pin("mine", PROMPT))
    nobody = kvquarry("unpin", "mine", "--engine", "nobody", "--target", service.target)
    assert (nobody.returncode, nobody.stdout) == (1, "")
    assert "there is no engine 'nobody'" in nobody.stderr
    some = kvquarry("unpin", "mine", "deadbeef", "--engine", name, "--target", service.target)
    assert (some.returncode, some.stdout) == (1, "1 pin ended\n")
    assert "there is no pin 'deadbeef'" in some.stderr
