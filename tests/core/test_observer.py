"""The log of what a pool can no longer find."""

from kvquarry_core.ids import GroupId, Handle
from kvquarry_core.observer import EvictionLog
from kvquarry_core.pool import Pool
from tests.core.small_pools import (
    ATTENTION,
    admit,
    cache,
    commit_all,
    hashes,
    one_class,
    run,
    take_all,
)

R1, R2 = Handle(1), Handle(2)


def logged_pool(num_blocks: int) -> tuple[Pool, EvictionLog]:
    """A pool and the log that listens to it."""
    log = EvictionLog()
    return Pool(one_class(num_blocks), observer=log), log


def drained(pool: Pool, log: EvictionLog) -> list[bytes]:
    """The hashes that went since the last call."""
    return [block_hash for _, block_hash in log.drain(pool.store.index)]


def test_evicted_rows_are_logged_once_and_in_order() -> None:
    pool, log = logged_pool(num_blocks=4)
    cache(pool, R1, "abcd")
    assert drained(pool, log) == []
    admit(pool, R2, "xy")
    assert drained(pool, log) == [b"abcd", b"abc"]
    assert drained(pool, log) == []


def test_a_row_with_a_twin_that_is_still_found_is_not_logged() -> None:
    pool, log = logged_pool(num_blocks=9)
    for handle in (R1, R2):
        admit(pool, handle, "ab")
        take_all(pool, handle)
    for handle in (R1, R2):
        commit_all(pool, handle, "ab")
    pool.forget(GroupId(0), pool.requests[R1].held[0])
    assert drained(pool, log) == []
    pool.forget(GroupId(0), pool.requests[R2].held[0])
    assert drained(pool, log) == hashes("ab")


def test_content_that_came_back_before_anybody_asked_is_not_logged() -> None:
    pool, log = logged_pool(num_blocks=9)
    run(pool, R1, "ab")
    held = pool.requests[R1].held[0]
    pool.forget(GroupId(0), held)
    pool.commit(R1, ATTENTION, hashes("ab")[0], (held[0],))
    assert drained(pool, log) == [b"ab"]
