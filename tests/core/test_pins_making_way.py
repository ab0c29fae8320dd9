"""Pins: to whom they give way, and how what they hold moves."""

from kvquarry_core.ids import ClassId, GroupId, Handle
from kvquarry_core.integrity import check_integrity
from kvquarry_core.messages import (
    Admission,
    Grant,
    RefusalCause,
)
from kvquarry_core.pool import Pool
from kvquarry_core.relocation import EvacuateCheapest
from tests.core.pinning import attention_pool, pin
from tests.core.small_pools import (
    cache,
    one_class,
    refused,
    request,
    run,
    two_classes,
)
from tests.core.snapshot import snapshot

SMALL = ClassId(0)


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
