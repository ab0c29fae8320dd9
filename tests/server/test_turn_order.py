"""Whoever has had least goes first: streams on a clock that only their slices move."""

import random
from dataclasses import dataclass, field

import pytest

from kvquarry_server.turn_order import Share, TurnOrder

SLICE_S = 0.001


@dataclass(eq=False)
class Stream:
    """Somebody who has something to say at certain times, a slice's worth each time."""

    name: str
    speaks_at: list[float]
    slice_s: float = SLICE_S
    share: Share = field(default_factory=Share)
    waits: list[float] = field(default_factory=list)
    used_s: float = 0.0


def simulate(streams: list[Stream], until_s: float) -> list[str]:
    """Serve one slice after another; returns whose they were."""
    order: TurnOrder[Stream] = TurnOrder()
    served: list[str] = []
    now = 0.0
    arrived: dict[Stream, float] = {}
    while now < until_s:
        for stream in streams:
            if stream not in arrived and stream.speaks_at and stream.speaks_at[0] <= now:
                arrived[stream] = stream.speaks_at.pop(0)
                order.wait(stream.share, stream)
        if not order:
            now = min(stream.speaks_at[0] for stream in streams if stream.speaks_at)
            continue
        stream = order.call()
        stream.waits.append(now - arrived.pop(stream))
        now += stream.slice_s
        stream.used_s += stream.slice_s
        order.used(stream.share, stream.slice_s)
        served.append(stream.name)
    return served


def always() -> list[float]:
    return [0.0] * 100_000


@pytest.mark.parametrize("num_floods", [1, 2, 7])
def test_a_flood_delays_a_calm_stream_by_at_most_one_slice(num_floods: int) -> None:
    chance = random.Random(num_floods)
    calm = Stream("calm", [0.04 * number + chance.uniform(0, 0.02) for number in range(1, 201)])
    floods = [Stream(f"flood {number}", always()) for number in range(num_floods)]
    simulate([*floods, calm], until_s=10)
    assert len(calm.waits) == 200
    assert max(calm.waits) <= SLICE_S + 1e-9


def test_each_of_several_that_come_back_waits_for_one_slice_of_each_other() -> None:
    times = [float(second) for second in range(1, 50)]
    calm = [Stream(f"calm {number}", list(times)) for number in range(5)]
    simulate([*calm, Stream("flood", always())], until_s=60)
    for stream in calm:
        assert max(stream.waits) <= 5 * SLICE_S + 1e-9


def test_streams_that_never_rest_get_equal_time_whatever_their_slices() -> None:
    long, short = Stream("long", always(), slice_s=0.005), Stream("short", always(), slice_s=0.001)
    simulate([long, short], until_s=10)
    assert abs(long.used_s - short.used_s) <= 0.005 + 1e-9


def test_a_rest_is_not_saved_up() -> None:
    late = Stream("late", [5.0] * 100_000)
    served = simulate([Stream("early", always()), late], until_s=6)
    assert 400 < served.count("late") < 600
    first = served.index("late")
    assert served[first : first + 10].count("late") <= 6


def test_who_is_alone_never_waits_and_who_was_interrupted_does() -> None:
    order: TurnOrder[None] = TurnOrder()
    flood, calm = Share(), Share()
    for _ in range(3):
        assert order.goes_at_once(flood)
        order.used(flood, SLICE_S)
    assert order.goes_at_once(calm)
    order.used(calm, SLICE_S)
    assert not order.goes_at_once(flood)


def test_nobody_goes_at_once_again_and_again_before_one_who_waits() -> None:
    order: TurnOrder[str] = TurnOrder()
    flood, calm = Share(), Share()
    order.goes_at_once(flood)
    order.used(flood, SLICE_S)
    order.wait(flood, "flood")
    at_once = []
    for _ in range(2):
        at_once.append(order.goes_at_once(calm))
        order.used(calm, SLICE_S)
    assert at_once == [True, False]
    assert order.call() == "flood"
