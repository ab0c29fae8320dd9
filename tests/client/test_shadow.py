"""The shadow asks as little as it can, spends what it was granted, and leaks nothing."""

import pytest

from kvquarry_client.scheduling import Allocation
from kvquarry_core.plan import GroupSpec
from kvquarry_core.retention import Landmarks
from tests.client.pools import ATTENTION, BLOCK, CHUNK, HYBRID, Engine, engine, prompt


def test_an_admission_makes_one_exchange() -> None:
    quarry = engine()
    assert quarry.admit("a", 23)
    assert quarry.ledger.num_exchanges == 1


def test_a_decode_step_whose_blocks_suffice_makes_no_exchange() -> None:
    quarry = engine()
    quarry.admit("a", 5 * BLOCK + 1)
    for num_tokens in range(5 * BLOCK + 2, 6 * BLOCK + 1):
        quarry.shadow.begin_step()
        assert quarry.decode("a", num_tokens)
    assert quarry.ledger.num_exchanges == 1
    assert quarry.decode("a", 6 * BLOCK + 1), "the next block has to be asked for"
    assert quarry.ledger.num_exchanges == 2


def test_unspent_grants_go_back_when_the_next_step_starts() -> None:
    quarry = engine()
    waiting = prompt("a", 40)
    quarry.shadow.lookup(waiting)
    granted = quarry.used_bytes()
    quarry.shadow.allocate_first(waiting, Allocation(8, 8, 0), keep_free=False)
    assert quarry.used_bytes() == granted
    quarry.shadow.begin_step()
    record = next(iter(quarry.ledger.pool.requests.values()))
    assert [len(granted) for granted in record.granted] == [0, 0, 0]
    assert [len(held) for held in record.held] == [0, 0, 2], "running states are leased"


@pytest.mark.parametrize("content", ["the same", "other"])
def test_a_lookup_nobody_allocates_leaks_nothing(content: str) -> None:
    quarry = engine()
    quarry.admit("first", 40, "the same")
    quarry.shadow.free("first")
    quarry.shadow.begin_step()
    quarry.shadow.lookup(prompt("a", 41, content))
    assert quarry.used_bytes() > 0
    quarry.shadow.begin_step()
    assert quarry.used_bytes() == 0
    assert not quarry.ledger.pool.requests


def test_a_request_aborted_between_lookup_and_allocation_leaks_nothing() -> None:
    quarry = engine()
    quarry.shadow.lookup(prompt("a", 41))
    quarry.shadow.free("a")
    assert quarry.used_bytes() == 0
    quarry.shadow.begin_step()
    assert not quarry.ledger.pool.requests


def test_looking_up_twice_in_a_step_touches_once() -> None:
    quarry = engine()
    one = quarry.shadow.lookup(prompt("a", 41))
    assert quarry.shadow.lookup(prompt("a", 41)) == one
    assert quarry.ledger.num_exchanges == 1
    assert len(quarry.ledger.pool.requests) == 1


def test_a_state_of_this_step_is_hit_from_the_next_step_on() -> None:
    quarry = engine()
    assert quarry.admit("a", 40, "same")
    assert not quarry.admit("b", 41, "same"), "its state is only being written"
    asked = quarry.ledger.num_exchanges
    assert not quarry.admit("b", 41, "same")
    assert quarry.ledger.num_exchanges == asked, "the refusal holds for the whole step"
    quarry.shadow.begin_step()
    assert quarry.shadow.lookup(prompt("b", 41, "same")).hit_tokens == 40
    assert quarry.admit("b", 41, "same")


def test_attention_blocks_of_this_step_may_be_hit_at_once() -> None:
    quarry = engine((ATTENTION,))
    assert quarry.admit("a", 41, "same")
    assert quarry.shadow.lookup(prompt("b", 41, "same")).hit_tokens == 40
    assert quarry.admit("b", 41, "same")


def full(groups: tuple[GroupSpec, ...] = HYBRID) -> Engine:
    """An engine whose pool is taken up by one running request, and which refused another."""
    quarry = engine(groups, num_slabs=12)
    assert quarry.admit("running", 4 * BLOCK)
    assert not quarry.admit("refused", 50 * BLOCK)
    return quarry


def test_a_refusal_is_not_asked_about_again_while_nothing_changes() -> None:
    quarry = full()
    asked = quarry.ledger.num_exchanges
    for _ in range(3):
        quarry.shadow.begin_step()
        assert not quarry.admit("refused", 50 * BLOCK)
    assert quarry.ledger.num_exchanges == asked


@pytest.mark.parametrize("change", ["free", "commit", "reset", "unspent", "nothing runs"])
def test_a_refusal_is_asked_about_again_after_a_change(change: str) -> None:
    quarry = full()
    if change == "commit":
        quarry.decode("running", 5 * BLOCK)
        quarry.shadow.commit("running", prompt("running", 5 * BLOCK).hashes, 5 * BLOCK, Landmarks())
    elif change == "unspent":
        quarry.shadow.lookup(prompt("other", 5))
        quarry.shadow.begin_step()
    elif change == "reset":
        assert not quarry.shadow.reset_cache()
    else:
        quarry.shadow.free("running")
    asked = quarry.ledger.num_exchanges
    quarry.shadow.lookup(prompt("refused", 50 * BLOCK))
    assert quarry.ledger.num_exchanges == asked + 1


def test_blocks_kept_free_for_others_are_used_when_nothing_runs() -> None:
    quarry = engine((ATTENTION,), num_slabs=4, keep_free_blocks=(8,))
    assert quarry.admit("running", BLOCK)
    assert not quarry.admit("big", 4 * BLOCK)
    quarry.shadow.free("running")
    assert quarry.admit("big", 4 * BLOCK)


def test_the_reserve_lapses_when_the_scheduler_says_nothing_runs() -> None:
    quarry = engine((ATTENTION,), num_slabs=4, keep_free_blocks=(8,))
    assert quarry.admit("held", BLOCK)
    waiting = prompt("big", 4 * BLOCK)
    quarry.shadow.lookup(waiting)
    allocation = Allocation(4 * BLOCK, 4 * BLOCK, 0)
    assert quarry.shadow.allocate_first(waiting, allocation, keep_free=True) is None
    assert quarry.shadow.allocate_first(waiting, allocation, keep_free=False) is not None


def test_detached_blocks_are_nobodys_until_their_step_has_completed() -> None:
    quarry = engine()
    quarry.admit("a", 21)
    used = quarry.used_bytes()
    handle = quarry.shadow.detach("a")
    assert handle is not None
    assert quarry.shadow.find("a") is None
    assert quarry.used_bytes() == used
    quarry.admit("a", 21), "the same request may come back meanwhile"
    quarry.shadow.free_handle(handle)
    quarry.shadow.free("a")
    assert quarry.used_bytes() == 0


def test_a_grant_smaller_than_the_chunk_is_topped_up() -> None:
    quarry = engine(num_slabs=200)
    waiting = prompt("a", CHUNK + 20 * BLOCK)
    quarry.shadow.lookup(waiting)
    end = CHUNK + 8 * BLOCK
    request = quarry.shadow.allocate_first(waiting, Allocation(end, end, 0), keep_free=False)
    assert request is not None
    assert quarry.ledger.num_exchanges == 2
    assert len(request.block_ids()[2]) == end // BLOCK


def test_only_attention_blocks_with_foreign_bytes_are_zeroed_and_only_once() -> None:
    quarry = engine()
    quarry.admit("a", 21)
    request = quarry.shadow.find("a")
    assert request is not None
    attention, states = quarry.shadow.take_blocks_to_zero()
    assert sorted(attention) == sorted(request.block_ids()[2])
    assert states == []
    assert quarry.shadow.take_blocks_to_zero() == [[], []]
    quarry.shadow.free("a")
    quarry.shadow.begin_step()
    assert quarry.shadow.reset_cache()


def test_a_granted_block_given_back_is_still_to_be_zeroed_for_the_next_one() -> None:
    quarry = engine()
    quarry.shadow.lookup(prompt("a", 41))
    quarry.shadow.begin_step()
    assert quarry.shadow.take_blocks_to_zero() == [[], []]
    quarry.admit("b", 41)
    assert [len(ids) for ids in quarry.shadow.take_blocks_to_zero()] == [11, 0]


def test_a_refused_growth_changes_nothing() -> None:
    quarry = engine(num_slabs=10)
    assert quarry.admit("a", 4 * BLOCK)
    used, request = quarry.used_bytes(), quarry.shadow.find("a")
    assert request is not None
    tables = request.block_ids()
    far = 400 * BLOCK
    assert not quarry.shadow.allocate(request, Allocation(far, far, 0))
    assert quarry.used_bytes() == used
    assert request.block_ids() == tables


def test_a_retired_state_is_used_again_without_asking() -> None:
    quarry = engine(ahead_tokens=BLOCK)
    quarry.admit("a", 2 * BLOCK + 1)
    asked = quarry.ledger.num_exchanges
    states: set[object] = set()
    for num_tokens in range(2 * BLOCK + 2, 8 * BLOCK):
        quarry.shadow.begin_step()
        assert quarry.decode("a", num_tokens)
        request = quarry.shadow.find("a")
        assert request is not None
        states.update(block for block in request.block_ids()[0] if block)
    assert len(states) == 2, "two states take turns"
    num_boundaries = 6
    assert quarry.ledger.num_exchanges <= asked + num_boundaries
    leased = quarry.ledger.pool.lease.blocks
    assert [len(blocks) for blocks in leased] == [2, 2, 0]


def test_a_committed_state_leaves_the_lease() -> None:
    quarry = engine()
    quarry.admit("a", 40)
    assert [len(blocks) for blocks in quarry.ledger.pool.lease.blocks] == [0, 0, 0]
    record = next(iter(quarry.ledger.pool.requests.values()))
    assert [len(held) for held in record.held] == [1, 1, 10]


def test_an_engine_without_requests_leases_nothing() -> None:
    quarry = engine()
    quarry.admit("a", 21)
    quarry.admit("b", 22)
    quarry.shadow.free("a")
    assert quarry.used_bytes() > 0
    quarry.shadow.free("b")
    assert quarry.used_bytes() == 0


def test_blocks_granted_ahead_make_decode_steps_silent() -> None:
    quarry = engine(num_slabs=400, ahead_tokens=8 * BLOCK)
    for name in "abc":
        quarry.admit(name, 2 * BLOCK + 1)
    quarry.shadow.begin_step()
    asked = quarry.ledger.num_exchanges
    for num_tokens in range(2 * BLOCK + 2, 10 * BLOCK):
        quarry.shadow.begin_step()
        for name in "abc":
            assert quarry.decode(name, num_tokens)
    assert quarry.ledger.num_exchanges <= asked + 3, "one boundary asks for all that follow"


def test_what_was_granted_ahead_is_returned_before_anybody_is_refused() -> None:
    quarry = engine((ATTENTION,), num_slabs=12, ahead_tokens=8 * BLOCK)
    quarry.admit("a", BLOCK)
    quarry.shadow.begin_step()
    quarry.decode("a", BLOCK + 1)
    idle = sum(quarry.ledger.pool.store.num_granted)
    assert idle > 0
    usable = quarry.ledger.pool.plan.classes[0].num_usable_blocks
    assert quarry.admit("b", (usable - 2) * BLOCK)
    assert sum(quarry.ledger.pool.store.num_granted) == 0
