"""Pins: what they hold, when they end, and to whom they give way."""

from dataclasses import replace

import pytest

from kvquarry_core.checks import LONGEST_PIN_S
from kvquarry_core.errors import Reason, UsageError
from kvquarry_core.ids import ClassId, GroupId, Handle
from kvquarry_core.integrity import check_integrity
from kvquarry_core.messages import (
    Admission,
    Grant,
    Pinned,
    PinRefusal,
    PinRefusalCause,
    PinRequest,
    RefusalCause,
)
from kvquarry_core.pins import MOST_PINS
from kvquarry_core.pool import Pool
from kvquarry_core.relocation import EvacuateCheapest
from kvquarry_core.usage import usage_of
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


def pin(pool: Pool, name: str, prompt: str, ttl_s: float = 10.0) -> Pinned | PinRefusal:
    answer = pool.pin(PinRequest(name, hashes(prompt), ttl_s))
    check_integrity(pool)
    return answer


def pinned(answer: Pinned | PinRefusal) -> Pinned:
    assert isinstance(answer, Pinned), answer
    return answer


def refusal(answer: Pinned | PinRefusal) -> PinRefusal:
    assert isinstance(answer, PinRefusal), answer
    return answer


def is_cached(pool: Pool, prompt: str) -> bool:
    return pool.store.index.find(ATTENTION, hashes(prompt)[-1]) is not None


def attention_pool(cap: float = 1.0, num_blocks: int = 6) -> Pool:
    """With "ab" cached, and older than "xy"."""
    pool = Pool(one_class(num_blocks), pin_cap=cap)
    cache(pool, 1, "ab")
    cache(pool, 2, "xy")
    return pool


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
    assert usage_of(pool).classes[0].active - pool.plan.num_reserved_blocks == 2


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


# Giving way.


def test_a_pin_gives_way_to_a_request_that_could_never_run_beside_it() -> None:
    pool = attention_pool()
    pin(pool, "p", "ab")
    answer = pool.admit(request(3, "klmnop", must_fit_tokens=6))
    assert isinstance(answer, Admission)
    assert pool.pins.num_broken == 1
    assert len(pool.pins) == 0
    check_integrity(pool)


def test_no_more_pins_give_way_than_must_and_the_first_to_lapse_is_the_first() -> None:
    pool = Pool(one_class(8), pin_cap=1.0)
    for handle, prompt in enumerate(("ab", "xy", "q")):
        cache(pool, handle, prompt)
    for name, prompt, ttl_s in (("late", "ab", 30), ("soon", "xy", 10), ("middle", "q", 20)):
        pin(pool, name, prompt, ttl_s)
    assert isinstance(pool.admit(request(9, "klmnop", must_fit_tokens=6)), Admission)
    assert [one.pin_id for one in pool.pins] == ["late"]
    assert pool.pins.num_broken == 2


def test_a_request_that_builds_on_a_pin_keeps_what_it_hit() -> None:
    """Though the pin itself goes, since its other part stands in the way."""
    pool = Pool(one_class(6), pin_cap=1.0)
    cache(pool, 1, "abcd")
    pin(pool, "p", "abcd")
    answer = pool.admit(request(2, "abklmn", must_fit_tokens=6))
    assert isinstance(answer, Admission)
    assert answer.hit_tokens == 2
    assert pool.pins.num_broken == 1
    check_integrity(pool)


def test_no_pin_gives_way_while_others_run_who_will_free_something() -> None:
    pool = attention_pool()
    pin(pool, "p", "ab")
    run(pool, 3, "k")
    before = snapshot(pool)
    assert refused(pool.admit(request(4, "lmno", must_fit_tokens=4))).cause is (
        RefusalCause.SHORTAGE
    )
    assert snapshot(pool) == before


def test_a_pin_gives_way_to_who_runs_alone() -> None:
    """Preempting it would only bring it back to the same place."""
    pool = attention_pool()
    pin(pool, "p", "ab")
    run(pool, 3, "klmn")
    assert isinstance(pool.grow(Handle(3), [1]), Grant)
    assert pool.pins.num_broken == 1


def test_a_pin_gives_way_to_the_states_of_the_only_request() -> None:
    pool = Pool(two_classes(num_slabs=2), pin_cap=1.0)
    cache(pool, 1, "a")
    pin(pool, "p", "a")
    assert isinstance(pool.lease_blocks([0, 1]), Grant)
    assert pool.pins.num_broken == 1


def test_what_would_not_even_fit_without_pins_ends_none() -> None:
    pool = attention_pool()
    pin(pool, "p", "ab")
    answer = refused(pool.admit(request(3, "klmnopqr", must_fit_tokens=8)))
    assert answer.cause is RefusalCause.NEVER_FITS
    assert len(pool.pins) == 1


def test_pinned_blocks_do_not_make_a_request_too_large_for_ever() -> None:
    pool = attention_pool()
    pin(pool, "p", "ab")
    run(pool, 3, "k")
    answer = refused(pool.admit(request(4, "klmnop", must_fit_tokens=6)))
    assert answer.cause is RefusalCause.SHORTAGE


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


# Moving.


def test_a_pinned_block_moves_like_any_in_use_and_is_hit_where_it_went() -> None:
    """Its slab holds nothing else, and a state needs a whole one."""
    pool = Pool(two_classes(num_slabs=5), relocation=EvacuateCheapest(1 << 20), pin_cap=1.0)
    cache(pool, 1, "a")
    pin(pool, "p", "a")
    run(pool, 2, "klmn")
    [source], held = next(iter(pool.pins)).held[0], pool.requests[Handle(2)].held[0]
    pool.drop_blocks(Handle(2), GroupId(0), [one for one in held if one // 3 == source // 3])
    pool.begin_step()
    assert isinstance(pool.lease_blocks([0, 1]), Grant)
    answer = pool.lease_blocks([0, 1])
    assert isinstance(answer, Grant)
    [move] = answer.moves
    assert move.source == source
    [one] = pool.pins
    assert one.held[0] == [move.target]
    check_integrity(pool)
    pool.free(Handle(2))
    assert run(pool, 3, "ab").hit_tokens == 1
    pool.unpin("p")
    check_integrity(pool)
