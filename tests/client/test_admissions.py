"""A waiting request is asked about once, and again only when the answer may be another."""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest

from kvquarry_client.scheduling import Allocation, Waiting
from kvquarry_core.messages import Grant, Refusal
from kvquarry_core.pool import Pool
from kvquarry_core.retention import Landmarks
from tests.client.pools import ATTENTION, BLOCK, CHUNK, Engine, engine, prompt

AHEAD = 8 * BLOCK


def plenty() -> Engine:
    """An engine that has heard how much memory is free."""
    quarry = engine(num_slabs=600, ahead_tokens=AHEAD)
    quarry.admit("first", 5)
    quarry.shadow.free("first")
    quarry.ledger.num_exchanges = 0
    return quarry


def commit(quarry: Engine, content: str) -> None:
    """A request fills blocks with this content and is over."""
    assert quarry.admit(content, 2 * BLOCK)
    quarry.shadow.free(content)


def test_who_is_started_a_step_after_its_lookup_makes_one_exchange() -> None:
    quarry = plenty()
    waiting = prompt("a", 23)
    quarry.shadow.lookup(waiting)
    quarry.shadow.begin_step()
    quarry.shadow.lookup(waiting)
    assert quarry.shadow.allocate_first(waiting, Allocation(23, 23, 0), keep_free=True)
    assert quarry.ledger.num_exchanges == 1


def test_who_is_not_started_in_the_next_step_holds_nothing_any_more() -> None:
    quarry = plenty()
    quarry.admit("runner", 5)
    quarry.shadow.lookup(prompt("a", 23))
    quarry.shadow.begin_step()
    assert quarry.shadow.find_waiting("a")
    quarry.shadow.begin_step()
    assert quarry.shadow.find_waiting("a") is None
    assert len(quarry.ledger.pool.requests) == 1


def test_who_waits_is_looked_up_again_once_it_could_hit_more() -> None:
    quarry = plenty()
    waiting = prompt("a", 3 * BLOCK + 1, "same")
    assert quarry.shadow.lookup(waiting).hit_tokens == 0
    commit(quarry, "same")
    quarry.shadow.begin_step()
    assert quarry.shadow.lookup(waiting).hit_tokens == 2 * BLOCK


def test_who_waits_is_not_looked_up_again_for_what_it_cannot_hit() -> None:
    quarry = plenty()
    quarry.shadow.lookup(prompt("a", 3 * BLOCK + 1))
    commit(quarry, "other")
    asked = quarry.ledger.num_exchanges
    quarry.shadow.begin_step()
    quarry.shadow.lookup(prompt("a", 3 * BLOCK + 1))
    assert quarry.ledger.num_exchanges == asked


def test_what_waits_goes_back_before_somebody_else_is_refused() -> None:
    quarry = engine((ATTENTION,), num_slabs=12, ahead_tokens=AHEAD)
    usable = quarry.ledger.pool.plan.classes[0].num_usable_blocks
    quarry.shadow.lookup(prompt("waits", (usable // 3) * BLOCK))
    quarry.shadow.begin_step()
    assert quarry.shadow.find_waiting("waits")
    assert quarry.admit("large", usable * BLOCK)
    assert quarry.shadow.find_waiting("waits") is None


def test_where_memory_is_plenty_all_chunks_of_a_prompt_come_with_its_admission() -> None:
    quarry = plenty()
    waiting = prompt("a", 4 * CHUNK + 3)
    quarry.shadow.lookup(waiting)
    start = Allocation(CHUNK, CHUNK, 0)
    request = quarry.shadow.allocate_first(waiting, start, keep_free=True)
    assert request is not None
    ends = (CHUNK, 2 * CHUNK, 3 * CHUNK, 4 * CHUNK, 4 * CHUNK + 3, 4 * CHUNK + 2 * BLOCK)
    for processed, end in itertools.pairwise(ends):
        quarry.shadow.begin_step()
        assert quarry.shadow.allocate(request, Allocation(end, end, processed))
    assert quarry.ledger.num_exchanges == 1


def test_nobody_is_granted_blocks_beyond_its_end() -> None:
    quarry = plenty()
    waiting = replace(prompt("a", 2 * BLOCK), most_tokens=3 * BLOCK)
    quarry.shadow.lookup(waiting)
    [record] = quarry.ledger.pool.requests.values()
    assert len(record.granted[2]) == 3


@pytest.mark.parametrize(("content", "asks"), [("refused", 1), ("other", 0)])
def test_a_refusal_is_asked_about_again_only_for_content_it_could_hit(
    content: str, asks: int
) -> None:
    quarry = engine(num_slabs=12)
    assert quarry.admit("running", 4 * BLOCK)
    assert quarry.decode("running", 5 * BLOCK)
    assert not quarry.admit("refused", 50 * BLOCK)
    asked = quarry.ledger.num_exchanges
    assert quarry.shadow.commit(
        "running", prompt(content, 5 * BLOCK).hashes, 5 * BLOCK, Landmarks()
    )
    quarry.shadow.lookup(prompt("refused", 50 * BLOCK))
    assert quarry.ledger.num_exchanges == asked + asks


def test_what_never_fits_is_asked_about_once_whatever_lies_idle() -> None:
    quarry = plenty()
    quarry.admit("running", 2 * BLOCK + 1)
    assert not quarry.admit("large", 10_000 * BLOCK)
    quarry.shadow.begin_step()
    quarry.decode("running", 3 * BLOCK + 1)
    quarry.shadow.begin_step()
    quarry.decode("running", 3 * BLOCK + 2)
    assert any(quarry.ledger.pool.lease.blocks), "states lie idle"
    asked = quarry.ledger.num_exchanges
    quarry.shadow.lookup(prompt("large", 10_000 * BLOCK))
    assert quarry.ledger.num_exchanges == asked


def test_a_retired_state_is_reason_to_ask_again_for_who_waits_for_memory() -> None:
    """It lies in stock, but the pool would have it: nobody waits while blocks lie idle."""
    quarry = engine(num_slabs=14, ahead_tokens=AHEAD)
    assert quarry.admit("running", 2 * BLOCK + 1)
    usable = quarry.ledger.pool.plan.classes[0].num_usable_blocks
    waiting = (usable - 4) * BLOCK
    assert not quarry.admit("waits", waiting)
    quarry.shadow.begin_step()
    assert quarry.decode("running", 3 * BLOCK + 1)
    assert not quarry.admit("waits", waiting)
    quarry.shadow.begin_step()
    assert quarry.decode("running", 3 * BLOCK + 2), "its earlier state is retired now"
    asked = quarry.ledger.num_exchanges
    quarry.shadow.lookup(prompt("waits", waiting))
    assert quarry.ledger.num_exchanges == asked + 1
    assert sum(map(len, quarry.ledger.pool.lease.blocks)) == 2, "but for what runs, nothing"


@pytest.mark.parametrize(("num_slabs", "leases"), [(600, [1, 0, 0, 0, 1, 0]), (24, [1] * 6)])
def test_where_memory_is_plenty_states_of_the_next_few_requests_come_along(
    num_slabs: int, leases: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    quarry = engine(num_slabs=num_slabs, ahead_tokens=AHEAD)
    assert quarry.admit("running", 5)
    pool, asked = quarry.ledger.pool, []

    def lease_blocks(num_blocks: Sequence[int]) -> Grant | Refusal:
        asked.append(num_blocks)
        return Pool.lease_blocks(pool, num_blocks)

    monkeypatch.setattr(pool, "lease_blocks", lease_blocks)
    counts = []
    for number in range(len(leases)):
        asked.clear()
        commit(quarry, f"prompt {number}")
        quarry.shadow.begin_step()
        counts.append(len(asked))
    assert counts == leases


def line(*request_ids: str) -> list[Waiting]:
    return [prompt(request_id, 3 * BLOCK + 1) for request_id in request_ids]


def test_those_next_in_line_come_along() -> None:
    quarry = plenty()
    quarry.admit("runner", 5)
    asked = quarry.ledger.num_exchanges
    first, *others = everybody = line("a", "b", "c")
    quarry.shadow.lookup(first, others)
    for waiting in everybody:
        quarry.shadow.lookup(waiting)
        assert quarry.shadow.allocate_first(waiting, Allocation(13, 13, 0), keep_free=True)
        quarry.shadow.commit(waiting.request_id, waiting.hashes, 13, Landmarks((13,)))
    assert quarry.ledger.num_exchanges == asked + 1
    quarry.shadow.begin_step()


def test_nobody_comes_along_before_it_is_known_how_much_memory_is_free() -> None:
    quarry = engine(num_slabs=600, ahead_tokens=AHEAD)
    first, other = line("a", "b")
    quarry.shadow.lookup(first, [other])
    assert quarry.shadow.find_waiting("b") is None


def test_nobody_comes_along_where_memory_is_not_plenty() -> None:
    quarry = engine(num_slabs=24, ahead_tokens=AHEAD)
    quarry.admit("runner", 5)
    first, *others = line(*map(str, range(8)))
    quarry.shadow.lookup(first, others)
    assert quarry.shadow.find_waiting(first.request_id)
    assert not any(quarry.shadow.find_waiting(one.request_id) for one in others)


def test_without_luxury_nobody_comes_along() -> None:
    quarry = engine(num_slabs=600)
    quarry.admit("runner", 5)
    first, other = line("a", "b")
    quarry.shadow.lookup(first, [other])
    assert quarry.shadow.find_waiting("b") is None


def test_nobody_is_asked_who_is_next_in_line_where_no_exchange_is_needed() -> None:
    quarry = plenty()
    waiting = prompt("a", 13)

    def ask() -> Iterator[Waiting]:
        raise AssertionError("nobody need have looked")
        yield waiting

    quarry.shadow.lookup(waiting)
    quarry.shadow.lookup(waiting, ask())


def test_whoever_came_along_hits_what_was_committed_before_his_turn() -> None:
    """The same text behind another beginning would not be known to be shared; here it is."""
    quarry = plenty()
    quarry.admit("runner", 5)
    first, other = prompt("a", 13), prompt("b", 3 * BLOCK + 1, "same")
    quarry.shadow.lookup(first, [other])
    assert quarry.shadow.find_waiting("b")
    commit(quarry, "same")
    quarry.shadow.begin_step()
    assert quarry.shadow.lookup(other).hit_tokens == 2 * BLOCK


def test_a_refusal_of_whoever_came_along_is_not_held_against_him() -> None:
    """His hit ends in a state of this very step: the scheduler hears so when it is his turn."""
    quarry = plenty()
    assert quarry.admit("same", 2 * BLOCK)
    first, twin = prompt("a", 13), prompt("twin", 3 * BLOCK + 1, "same")
    quarry.shadow.lookup(first, [twin])
    assert quarry.shadow.find_waiting("a")
    assert quarry.shadow.find_waiting("twin") is None
    quarry.shadow.begin_step()
    assert quarry.shadow.lookup(twin).hit_tokens == 2 * BLOCK


@pytest.mark.parametrize("num_running", [16, 24])
@pytest.mark.parametrize("tenths", range(3, 8))
def test_whoever_came_along_with_a_refused_one_holds_nothing(num_running: int, tenths: int) -> None:
    """The first is large; the pool promises those that run some blocks, too."""
    quarry = engine(num_slabs=400, ahead_tokens=AHEAD)
    usable = quarry.ledger.pool.plan.classes[0].num_usable_blocks
    assert quarry.admit("first", 5)
    quarry.shadow.free("first")
    for number in range(num_running):
        assert quarry.admit(f"runner{number}", 5)
    large, small = prompt("large", usable * BLOCK * tenths // 10 + 1), prompt("small", 13)
    for _ in range(5):
        quarry.shadow.begin_step()
        quarry.shadow.lookup(large, [small])
    for request_id in ("large", "small", *(f"runner{number}" for number in range(num_running))):
        quarry.shadow.free(request_id)
    quarry.shadow.begin_step()
    assert not quarry.ledger.pool.requests


def test_whoever_was_looked_up_behind_a_commit_is_not_asked_for_again() -> None:
    quarry = plenty()
    quarry.admit("runner", 5)
    quarry.shadow.lookup(prompt("pending", 13))
    commit(quarry, "same")
    quarry.shadow.begin_step()
    first, twin = prompt("a", 13), prompt("twin", 3 * BLOCK + 1, "same")
    quarry.shadow.lookup(first, [twin])
    asked = quarry.ledger.num_exchanges
    assert quarry.shadow.lookup(twin).hit_tokens == 2 * BLOCK
    assert quarry.ledger.num_exchanges == asked


def test_whoever_came_along_keeps_his_states_when_the_first_waits_for_one_of_this_step() -> None:
    quarry = plenty()
    quarry.admit("runner", 5)
    assert quarry.admit("same", 2 * BLOCK)
    twin, other = prompt("twin", 3 * BLOCK + 1, "same"), prompt("a", 13)
    quarry.shadow.lookup(twin, [other])
    assert quarry.shadow.find_waiting("twin") is None
    assert quarry.shadow.find_waiting("a")
    assert any(quarry.ledger.pool.lease.blocks)
    asked = quarry.ledger.num_exchanges
    assert quarry.shadow.allocate_first(other, Allocation(13, 13, 0), keep_free=True)
    assert quarry.ledger.num_exchanges == asked
    quarry.shadow.begin_step()


def test_whoever_came_along_in_vain_holds_nothing_after_another_step() -> None:
    quarry = plenty()
    quarry.admit("runner", 5)
    first, other = line("a", "b")
    quarry.shadow.lookup(first, [other])
    assert quarry.shadow.allocate_first(first, Allocation(13, 13, 0), keep_free=True)
    quarry.shadow.begin_step()
    assert quarry.shadow.find_waiting("b")
    quarry.shadow.begin_step()
    assert quarry.shadow.find_waiting("b") is None
    assert len(quarry.ledger.pool.requests) == 2


def test_whoever_came_along_and_is_gone_gives_up_what_he_held() -> None:
    quarry = plenty()
    quarry.admit("runner", 5)
    first, other = line("a", "b")
    quarry.shadow.lookup(first, [other])
    quarry.shadow.free("b")
    quarry.shadow.free("a")
    assert len(quarry.ledger.pool.requests) == 1
    quarry.shadow.begin_step()
