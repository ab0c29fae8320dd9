"""All or nothing: whatever is refused leaves no trace, whether as an error or as a shortage."""

from collections.abc import Callable

import pytest

from kvquarry_core.errors import Reason, UsageError
from kvquarry_core.ids import Handle
from kvquarry_core.integrity import check_integrity
from kvquarry_core.messages import AdmitRequest, Refusal, RefusalCause
from kvquarry_core.pool import Pool
from tests.core.misuse import (
    G0,
    MISUSES,
    RUNNING,
    SHARING,
    STRANGER,
    THEFTS,
    Misuse,
    busy_pool,
    held,
)
from tests.core.small_pools import (
    ATTENTION,
    admit,
    cache,
    commit_all,
    hashes,
    refused,
    request,
    run,
    two_classes,
)
from tests.core.snapshot import snapshot


def changes_nothing(misuse: Misuse) -> None:
    """It is refused as a mistake, and the pool is as it was."""
    pool = busy_pool()
    before = snapshot(pool)
    with pytest.raises(UsageError) as caught:
        misuse.call(pool)
    assert caught.value.reason is misuse.reason
    assert snapshot(pool) == before
    assert pool.totals.refusals == 0
    check_integrity(pool)


@pytest.mark.parametrize("misuse", MISUSES.values(), ids=MISUSES)
def test_a_wrong_call_changes_nothing(misuse: Misuse) -> None:
    changes_nothing(misuse)


@pytest.mark.parametrize("theft", THEFTS.values(), ids=THEFTS)
def test_only_the_holder_of_a_block_can_commit_it(theft: Misuse) -> None:
    changes_nothing(theft)


def test_who_gave_a_block_up_cannot_commit_it_for_those_who_still_use_it() -> None:
    """The block lost its hash while two shared it; the one who wrote it gave it up."""
    pool = busy_pool()
    block = held(pool, RUNNING, 0, 0)
    assert held(pool, SHARING, 0, 0) == block
    pool.forget(G0, [block])
    pool.drop(RUNNING, G0, block)
    with pytest.raises(UsageError) as caught:
        pool.commit(RUNNING, ATTENTION, hashes("other")[-1], (block,))
    assert caught.value.reason is Reason.NOT_HELD


def test_who_is_left_alone_with_a_block_without_a_hash_may_commit_it() -> None:
    pool = busy_pool()
    block = held(pool, RUNNING, 0, 0)
    pool.forget(G0, [block])
    with pytest.raises(UsageError) as caught:
        pool.commit(SHARING, ATTENTION, hashes("a")[0], (block,))
    assert caught.value.reason is Reason.NOT_SOLE_OWNER
    pool.drop(RUNNING, G0, block)
    pool.commit(SHARING, ATTENTION, hashes("a")[0], (block,))
    check_integrity(pool)


REFUSED_ADMISSIONS = {
    "too long for what is free": AdmitRequest(STRANGER, hashes("abc"), 60, 3, 60, 0, 60),
    "too much to keep free": AdmitRequest(STRANGER, hashes("abc"), 9, 3, 9, 0, 9, (60, 20)),
    "lookahead beyond the pool": AdmitRequest(STRANGER, hashes("abc"), 9, 3, 9, 90),
}


@pytest.mark.parametrize("ask", REFUSED_ADMISSIONS.values(), ids=REFUSED_ADMISSIONS)
def test_a_refused_admission_changes_nothing(ask: AdmitRequest) -> None:
    pool = busy_pool()
    before = snapshot(pool)
    assert isinstance(pool.admit(ask), Refusal)
    assert snapshot(pool) == before
    assert pool.totals.refusals == 1


@pytest.mark.parametrize("wanted", [[200, 0, 0], [0, 20, 0], [0, 9, 9], [30, 5, 5]])
def test_a_refused_growth_changes_nothing(wanted: list[int]) -> None:
    pool = busy_pool()
    before = snapshot(pool)
    assert isinstance(pool.grow(RUNNING, wanted), Refusal)
    assert snapshot(pool) == before
    assert pool.totals.refusals == 1


def test_a_refusal_for_a_young_state_changes_nothing_and_can_be_repeated() -> None:
    pool = busy_pool()
    run(pool, 50, "mno")
    before = snapshot(pool)
    for _ in range(3):
        cause = refused(pool.admit(request(STRANGER, "mnop"))).cause
        assert cause is RefusalCause.SAME_STEP
        assert snapshot(pool) == before
    pool.begin_step()
    assert not isinstance(pool.admit(request(STRANGER, "mnop")), Refusal)


def test_a_pool_that_is_stuck_forgets_nothing_for_a_request_that_it_refuses() -> None:
    """Two requests ran out of blocks though each was alone; the third one is too long anyway."""
    pool = Pool(two_classes(num_slabs=4))
    cache(pool, 1, "ab")
    for handle in (2, 3):
        admit(pool, handle, "ab")
        refused(pool.grow(Handle(handle), [0, 9]))
        pool.free(Handle(handle))
    before = snapshot(pool)
    refused(pool.admit(request(4, "x" * 60, must_fit_tokens=60)))
    assert snapshot(pool) == before
    refused(pool.lease_blocks([0, 9]))
    assert snapshot(pool) == before


def test_a_refused_reset_changes_nothing() -> None:
    pool = busy_pool()
    before = snapshot(pool)
    assert not pool.reset_cache()
    assert snapshot(pool) == before


STEPS: dict[str, Callable[[Pool], object]] = {
    "admit": lambda pool: pool.admit(request(STRANGER, "abcx")),
    "grow": lambda pool: pool.grow(RUNNING, [1, 0, 0]),
    "take": lambda pool: pool.take(RUNNING, G0, 1),
    "settle": lambda pool: pool.settle(RUNNING),
    "commit": lambda pool: commit_all(pool, SHARING, "abcd"),
    "drop": lambda pool: pool.drop(SHARING, G0, pool.requests[SHARING].held[0][-1]),
    "free": lambda pool: pool.free(SHARING),
    "forget": lambda pool: pool.forget(G0, pool.requests[RUNNING].held[0][:1]),
}


@pytest.mark.parametrize("step", STEPS.values(), ids=STEPS)
def test_a_snapshot_sees_every_operation(step: Callable[[Pool], object]) -> None:
    """Otherwise the tests above could not fail."""
    pool = busy_pool()
    before = snapshot(pool)
    step(pool)
    assert snapshot(pool) != before
