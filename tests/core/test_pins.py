"""Pins: what they hold, how much, and when they end."""

from dataclasses import replace

import pytest

from kvquarry_core.checks import LONGEST_PIN_S
from kvquarry_core.errors import Reason, UsageError
from kvquarry_core.ids import ClassId, GroupId, Handle
from kvquarry_core.integrity import check_integrity
from kvquarry_core.messages import (
    Admission,
    Grant,
    PinRefusal,
    PinRefusalCause,
    PinRequest,
    RefusalCause,
)
from kvquarry_core.pins import MOST_PINS
from kvquarry_core.pool import Pool
from kvquarry_core.usage import usage_of
from tests.core.pinning import attention_pool, is_cached, pin, pinned, refusal
from tests.core.small_pools import (
    ATTENTION,
    STATES,
    cache,
    hashes,
    one_class,
    refused,
    request,
    run,
    two_classes,
)
from tests.core.snapshot import snapshot

SMALL = ClassId(0)


# What a pin holds.


def test_a_pinned_prefix_is_not_evicted_though_it_is_the_oldest() -> None:
    pool = attention_pool()
    assert pinned(pin(pool, "p", "ab")).num_tokens == 2
    run(pool, 3, "klmn")
    assert is_cached(pool, "ab")
    assert not is_cached(pool, "xy")
    assert refused(pool.admit(request(4, "q"))).cause is RefusalCause.SHORTAGE


def test_a_pin_holds_the_longest_prefix_that_is_cached() -> None:
    pool = attention_pool()
    assert pinned(pin(pool, "p", "abcd")).num_tokens == 2


def test_a_pin_holds_the_checkpoint_its_prefix_ends_at_and_no_attention_beyond() -> None:
    pool = Pool(two_classes(num_slabs=8), pin_cap=1.0)
    cache(pool, 1, "abc")
    cache(pool, 2, "abcde")
    answer = pinned(pin(pool, "p", "abcd"))
    assert answer.num_tokens == 3
    assert answer.pinned_bytes == 3 * 16 + 48
    [one] = pool.pins
    assert one.held[1] == [pool.store.index.find(STATES, hashes("abc")[-1])]


def test_what_is_pinned_is_hit_and_outlives_who_hit_it() -> None:
    pool = attention_pool()
    pin(pool, "p", "ab")
    answer = run(pool, 3, "abc")
    assert answer.hit_tokens == 2
    pool.free(Handle(3))
    assert pool.unpin("p")
    check_integrity(pool)


def test_the_request_that_computes_a_prefix_may_pin_it() -> None:
    pool = Pool(one_class(6), pin_cap=1.0)
    run(pool, 1, "ab")
    pin(pool, "p", "ab")
    pool.free(Handle(1))
    assert usage_of(pool).classes[0].active == 2


# When it ends.


def test_a_pin_lapses_when_its_time_is_over() -> None:
    pool = attention_pool()
    pool.note_time(100.0)
    pin(pool, "p", "ab", ttl_s=10)
    pool.note_time(109.9)
    assert len(pool.pins) == 1
    pool.note_time(110.0)
    assert len(pool.pins) == 0
    assert pool.pins.pinned_bytes == 0
    run(pool, 3, "klmnop")
    assert not is_cached(pool, "ab")


def test_what_a_pin_let_go_counts_as_just_used_and_its_tail_goes_first() -> None:
    pool = attention_pool()
    pin(pool, "p", "ab")
    pool.unpin("p")
    order = [pool.store.contents.hash_of(SMALL, block) for block in pool.store.cache.by_age(SMALL)]
    assert order == [b"xy", b"x", b"ab", b"a"]


def test_the_same_name_extends_a_pin_and_never_shortens_it() -> None:
    pool = attention_pool()
    pin(pool, "p", "ab", ttl_s=10)
    pool.note_time(5.0)
    pin(pool, "p", "ab", ttl_s=10)
    pool.note_time(14.9)
    assert len(pool.pins) == 1
    pin(pool, "p", "ab", ttl_s=0.01)
    [one] = pool.pins
    assert one.deadline_s == 15.0


def test_the_same_name_holds_what_is_found_now() -> None:
    pool = attention_pool()
    pin(pool, "p", "ab")
    assert pinned(pin(pool, "p", "xy")).pinned_bytes == 2 * 16
    run(pool, 3, "klmn")
    assert is_cached(pool, "xy")
    assert not is_cached(pool, "ab")


def test_an_unknown_pin_ends_as_nothing() -> None:
    pool = attention_pool()
    before = snapshot(pool)
    assert not pool.unpin("p")
    assert snapshot(pool) == before


def test_a_reset_drops_pins_unless_it_is_refused() -> None:
    pool = attention_pool()
    pin(pool, "p", "ab")
    run(pool, 3, "q")
    assert not pool.reset_cache()
    assert len(pool.pins) == 1
    pool.free(Handle(3))
    assert pool.reset_cache()
    assert len(pool.pins) == 0
    check_integrity(pool)


def test_a_pin_ends_with_the_content_it_holds() -> None:
    """A prefix that lacks a block is of no use; the other pin stays."""
    pool = attention_pool()
    pin(pool, "p", "ab")
    pin(pool, "q", "xy")
    block = pool.store.index.find(ATTENTION, hashes("ab")[0])
    assert block is not None
    pool.forget(GroupId(0), [block])
    assert [one.pin_id for one in pool.pins] == ["q"]
    check_integrity(pool)


# The cap.


def test_beyond_the_cap_a_pin_is_refused_with_the_numbers() -> None:
    pool = attention_pool(cap=3 / 7)
    assert pinned(pin(pool, "p", "ab")).cap_bytes == 3 * 16
    before = snapshot(pool)
    answer = refusal(pin(pool, "q", "xy"))
    assert answer == PinRefusal(PinRefusalCause.OVER_CAP, 2 * 16, 2 * 16, 3 * 16)
    assert snapshot(pool) == before
    assert pool.totals.pins == pool.totals.pins_refused == 1


def test_a_block_of_several_pins_counts_once() -> None:
    pool = Pool(one_class(8), pin_cap=3 / 9)
    cache(pool, 1, "abc")
    pin(pool, "p", "ab")
    assert pinned(pin(pool, "q", "abc")).pinned_bytes == 3 * 16
    pool.unpin("q")
    assert pool.pins.pinned_bytes == 2 * 16
    check_integrity(pool)


def test_a_pin_that_is_extended_is_not_counted_twice() -> None:
    pool = attention_pool(cap=2 / 7)
    pin(pool, "p", "ab")
    assert pinned(pin(pool, "p", "ab")).pinned_bytes == 2 * 16
    assert pinned(pin(pool, "p", "xy")).pinned_bytes == 2 * 16


def test_without_a_cap_nothing_is_pinned() -> None:
    answer = refusal(pin(attention_pool(cap=0.0), "p", "ab"))
    assert answer.cause is PinRefusalCause.OVER_CAP
    assert answer.cap_bytes == 0


def test_what_is_not_cached_cannot_be_pinned() -> None:
    answer = refusal(pin(attention_pool(), "p", "q"))
    assert answer.cause is PinRefusalCause.NOTHING_CACHED


def test_pins_are_bounded_in_number_and_old_ones_can_be_extended() -> None:
    pool = attention_pool()
    for number in range(MOST_PINS):
        pool.pin(PinRequest(f"p{number}", hashes("ab"), 10))
    assert refusal(pin(pool, "q", "ab")).cause is PinRefusalCause.TOO_MANY
    pinned(pin(pool, "p7", "ab"))


def test_what_running_requests_were_promised_cannot_be_pinned() -> None:
    """Else a request that was let in because all of it fits would be preempted for a pin."""
    pool = attention_pool()
    admitted = pool.admit(replace(request(3, "klmno", must_fit_tokens=5), max_grant_tokens=1))
    assert isinstance(admitted, Admission)
    answer = refusal(pin(pool, "p", "xy"))
    assert answer.cause is PinRefusalCause.PROMISED
    assert isinstance(pool.grow(Handle(3), [4]), Grant)


# What can be asked.


@pytest.mark.parametrize("ttl_s", [0, -1, float("nan"), float("inf"), LONGEST_PIN_S + 1])
def test_a_pin_without_an_end_in_sight_is_refused(ttl_s: float) -> None:
    with pytest.raises(UsageError, match="a pin lasts more than 0") as caught:
        pin(attention_pool(), "p", "ab", ttl_s)
    assert caught.value.reason is Reason.INVALID_ARGUMENT


@pytest.mark.parametrize("name", ["", "a b", "a\n", "x" * 129])
def test_a_pin_has_a_short_visible_name(name: str) -> None:
    with pytest.raises(UsageError, match="a pin's name has 1 to 128"):
        pin(attention_pool(), name, "ab")
