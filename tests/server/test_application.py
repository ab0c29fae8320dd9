"""An operation with columns is one operation: all of its rows are applied, or none."""

import time

import pytest

from kvquarry_core.errors import Reason, UsageError
from kvquarry_core.ids import BlockHash, BlockId, GroupId, Handle, KindId
from kvquarry_core.integrity import check_integrity
from kvquarry_core.messages import Admission, AdmitRequest, AheadRequest
from kvquarry_core.plan import GroupKind, GroupSpec, make_plan
from kvquarry_core.pool import Pool
from kvquarry_server.application import apply_operation
from kvquarry_server.operations import Commit, Drop, Free, Operation, Settle, Take, Unreadable
from tests.server.doubles import ready_attachment
from tests.server.snapshot import snapshot

ONE, TWO, NOBODY = Handle(1), Handle(2), Handle(9)
FIRST, SECOND, LOST = GroupId(0), GroupId(1), GroupId(7)
HUGE = (1 << 32) - 1
X, Y = BlockHash(b"x"), BlockHash(b"y")


@pytest.fixture
def pool() -> Pool:
    """A pool with two requests that have spent two blocks in each of the first two groups."""
    pool = ready_attachment().pool
    for handle in (ONE, TWO):
        admission = pool.admit(AdmitRequest(handle, (), 12, 0, 12))
        assert isinstance(admission, Admission)
        pool.take(handle, FIRST, 2)
        pool.take(handle, SECOND, 2)
    return pool


def held(pool: Pool, handle: Handle, group: GroupId) -> list[BlockId]:
    return pool.requests[handle].held[group]


def row(pool: Pool, handle: Handle, position: int) -> list[BlockId]:
    return [held(pool, handle, FIRST)[position], held(pool, handle, SECOND)[position]]


def assert_refused(pool: Pool, operation: Operation, reason: Reason) -> None:
    before = snapshot(pool)
    with pytest.raises(UsageError) as refusal:
        apply_operation(pool, operation)
    assert refusal.value.reason is reason
    assert snapshot(pool) == before
    check_integrity(pool)


@pytest.mark.parametrize(
    ("take", "reason"),
    [
        (Take([ONE, NOBODY], [FIRST, FIRST], [1, 1]), Reason.UNKNOWN_REQUEST),
        (Take([ONE, TWO], [FIRST, LOST], [1, 1]), Reason.UNKNOWN_GROUP),
        (Take([ONE, TWO], [FIRST, FIRST], [1, 2]), Reason.NOT_GRANTED),
        (Take([ONE, ONE], [FIRST, FIRST], [1, 1]), Reason.NOT_GRANTED),
        (Take([ONE, TWO], [FIRST, FIRST], [1]), Reason.INVALID_ARGUMENT),
    ],
)
def test_take_spends_all_rows_or_none(pool: Pool, take: Take, reason: Reason) -> None:
    assert_refused(pool, take, reason)
    apply_operation(pool, Take([ONE, TWO], [FIRST, SECOND], [1, 1]))
    assert len(held(pool, ONE, FIRST)) == len(held(pool, TWO, SECOND)) == 3


def test_settle_knows_all_requests_or_settles_none(pool: Pool) -> None:
    assert_refused(pool, Settle([ONE, NOBODY]), Reason.UNKNOWN_REQUEST)
    apply_operation(pool, Settle([ONE, TWO, ONE]))
    assert sum(pool.store.num_granted) == 0


def test_free_knows_all_requests_or_frees_none(pool: Pool) -> None:
    assert_refused(pool, Free([ONE, NOBODY]), Reason.UNKNOWN_REQUEST)
    assert_refused(pool, Free([ONE, TWO, ONE]), Reason.UNKNOWN_REQUEST)
    apply_operation(pool, Free([ONE, TWO]))
    assert pool.requests == {}


def test_drop_finds_all_blocks_or_drops_none(pool: Pool) -> None:
    mine, theirs = held(pool, ONE, FIRST)[0], held(pool, TWO, FIRST)[0]
    groups, lost = [FIRST, FIRST], [FIRST, LOST]
    for drop, reason in (
        (Drop([ONE, ONE], groups, [1, 1], [mine, theirs]), Reason.NOT_HELD),
        (Drop([ONE, ONE], groups, [1, 1], [mine, mine]), Reason.NOT_HELD),
        (Drop([ONE], [FIRST], [2], [mine, mine]), Reason.NOT_HELD),
        (Drop([ONE, ONE], lost, [1, 1], [mine, mine]), Reason.UNKNOWN_GROUP),
        (Drop([ONE], groups, [1, 1], [mine, theirs]), Reason.INVALID_ARGUMENT),
        (Drop([ONE, TWO], groups, [1, 2], [mine, theirs]), Reason.INVALID_ARGUMENT),
        (Drop([], [], [], [mine]), Reason.INVALID_ARGUMENT),
    ):
        assert_refused(pool, drop, reason)
    apply_operation(pool, Drop([ONE, TWO], groups, [1, 1], [mine, theirs]))
    assert mine not in held(pool, ONE, FIRST)


def test_commit_accepts_all_rows_or_none(pool: Pool) -> None:
    good, shared = row(pool, ONE, 0), row(pool, TWO, 0)
    kinds, once = [KindId(0), KindId(0)], [1, 1]
    for commit, reason in (
        (Commit([ONE, NOBODY], kinds, once, [X, Y], good + shared), Reason.UNKNOWN_REQUEST),
        (Commit([ONE, ONE], kinds, once, [X, Y], good + good), Reason.ALREADY_COMMITTED),
        (Commit([ONE], [KindId(0)], [2], [X, Y], good + good), Reason.ALREADY_COMMITTED),
        (Commit([ONE, ONE], kinds, once, [X, Y], good), Reason.INVALID_ARGUMENT),
        (Commit([ONE, ONE], kinds, once, [X], good + shared), Reason.INVALID_ARGUMENT),
        (Commit([ONE, ONE], kinds, [1], [X, Y], good + shared), Reason.INVALID_ARGUMENT),
        (Commit([ONE, ONE], kinds, [1, HUGE], [X, Y], good + shared), Reason.INVALID_ARGUMENT),
        (Commit([ONE, ONE], [KindId(0), KindId(5)], once, [X, Y], good), Reason.UNKNOWN_GROUP),
        (Commit([ONE, ONE], kinds, once, [X, Y], [*good, *[BlockId(0)] * 2]), Reason.UNKNOWN_BLOCK),
    ):
        assert_refused(pool, commit, reason)
    apply_operation(pool, Commit([ONE, TWO], kinds, once, [X, Y], good + shared))
    assert pool.totals.commits == 2


def test_an_operation_nobody_knows_is_refused(pool: Pool) -> None:
    assert_refused(pool, Unreadable(), Reason.INVALID_ARGUMENT)


def test_a_hash_of_any_length_is_not_kept(pool: Pool) -> None:
    commit = Commit([ONE], [KindId(0)], [1], [BlockHash(b"x" * 65)], row(pool, ONE, 0))
    assert_refused(pool, commit, Reason.INVALID_ARGUMENT)


def test_nobody_is_granted_ahead_twice_in_one_operation(pool: Pool) -> None:
    assert_refused(pool, AheadRequest([ONE, TWO, ONE], [1, 1, 1]), Reason.INVALID_ARGUMENT)


def test_dropping_a_long_request_takes_linear_time() -> None:
    spec = GroupSpec(GroupKind.FULL_ATTENTION, block_tokens=1, page_bytes=64, num_layers=1)
    pool = Pool(make_plan((spec,), 64 * 20_100))
    pool.admit(AdmitRequest(ONE, (), 20_000, 0, 20_000))
    blocks = list(pool.take(ONE, FIRST, 20_000))
    # The blocks of a mistake are all looked for, and none is dropped.
    drop = Drop([ONE], [FIRST], [20_001], [*blocks, BlockId(20_050)])
    start = time.perf_counter()
    with pytest.raises(UsageError):
        apply_operation(pool, drop)
    assert time.perf_counter() - start < 1
