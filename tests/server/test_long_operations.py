"""A long operation comes to the same as if done in one go, and a mistake in it to nothing."""

from itertools import takewhile

import pytest

from kvquarry_core.errors import Reason, UsageError
from kvquarry_core.ids import BlockHash, BlockId, GroupId, Handle, KindId
from kvquarry_core.integrity import check_integrity
from kvquarry_core.messages import Admission, AdmitRequest, AheadRequest
from kvquarry_core.plan import GroupKind, GroupSpec, make_plan
from kvquarry_core.pool import Pool
from kvquarry_server import long_operations
from kvquarry_server.application import apply_operation
from kvquarry_server.long_operations import apply_in_slices, is_long
from kvquarry_server.operations import (
    Commit,
    Drop,
    Forget,
    Free,
    GiveBack,
    Operation,
    ResetCache,
    Settle,
    Take,
)
from kvquarry_server.outcomes import CacheReset
from kvquarry_server.slices import finished
from tests.server.doubles import ready_attachment
from tests.server.hostile_engine import HostileEngine
from tests.server.snapshot import snapshot

ONE, TWO = Handle(1), Handle(2)
GROUP, KIND = GroupId(0), KindId(0)
NUM_BLOCKS = 1000


@pytest.fixture
def short_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything with more than one row is long, and is done row by row."""
    for name in ("_MANY_ROWS", "_MANY_REQUESTS", "_MANY_GRANTS", "_MANY_DROPS"):
        monkeypatch.setattr(long_operations, name, 1)


def pool_of(num_requests: int) -> Pool:
    """A pool whose requests were granted a thousand blocks in all."""
    spec = GroupSpec(GroupKind.FULL_ATTENTION, block_tokens=1, page_bytes=64, num_layers=1)
    pool = Pool(make_plan((spec,), 64 * (NUM_BLOCKS + 100)))
    num_tokens = NUM_BLOCKS // num_requests
    for number in range(num_requests):
        admitted = pool.admit(AdmitRequest(Handle(number), (), num_tokens + 1, 0, num_tokens))
        assert isinstance(admitted, Admission)
    return pool


def hashes(count: int) -> list[BlockHash]:
    return [BlockHash(number.to_bytes(4, "big")) for number in range(count)]


def num_slices(pool: Pool, operation: Operation) -> int:
    """In how many an operation is applied."""
    return sum(1 for _ in apply_in_slices(pool, operation)) + 1


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.usefixtures("short_parts")
def test_parts_come_to_what_the_whole_comes_to(seed: int) -> None:
    whole, parted = ready_attachment().pool, ready_attachment().pool
    engine = HostileEngine(whole, seed)
    num_parted = 0
    for _ in range(400):
        operation = engine.operation()
        num_parted += is_long(operation)
        outcomes = []
        for pool, apply in ((whole, apply_operation), (parted, _in_slices)):
            try:
                outcomes.append(apply(pool, operation))
            except UsageError as mistake:
                outcomes.append((mistake.reason, str(mistake)))
        assert outcomes[0] == outcomes[1], operation
        assert snapshot(whole) == snapshot(parted), operation
    check_integrity(parted)
    assert num_parted > 50


def _in_slices(pool: Pool, operation: Operation) -> object:
    return finished(apply_in_slices(pool, operation))


def test_the_life_of_many_blocks_is_done_in_slices() -> None:
    pool = pool_of(1)
    handle = Handle(0)
    assert num_slices(pool, Take([handle] * NUM_BLOCKS, [GROUP] * NUM_BLOCKS, [1] * NUM_BLOCKS)) > 3
    blocks = list(pool.requests[handle].held[GROUP])
    commit = Commit([handle], [KIND], [NUM_BLOCKS], hashes(NUM_BLOCKS), blocks)
    assert num_slices(pool, commit) > 3
    check_integrity(pool)
    assert num_slices(pool, Drop([handle], [GROUP], [NUM_BLOCKS], blocks)) > 1
    assert num_slices(pool, Forget(GROUP, blocks[:300])) > 1
    assert len(pool.store.index.commitments(KIND)) == NUM_BLOCKS - 300
    assert num_slices(pool, ResetCache()) > 2
    assert pool.store.index.commitments(KIND) == []
    check_integrity(pool)


def test_blocks_dropped_one_by_one_go_together() -> None:
    """Each part goes through all that its request holds: a part for each block would be endless."""
    pool = pool_of(1)
    handle = Handle(0)
    apply_operation(pool, Take([handle], [GROUP], [NUM_BLOCKS]))
    blocks = list(pool.requests[handle].held[GROUP])
    runs = [1] * NUM_BLOCKS
    assert num_slices(pool, Drop([handle] * NUM_BLOCKS, [GROUP] * NUM_BLOCKS, runs, blocks)) < 5
    assert pool.requests[handle].held[GROUP] == []
    check_integrity(pool)


def test_a_long_commit_takes_names_by_place_too() -> None:
    pool, names = pool_of(1), hashes(NUM_BLOCKS)
    pool.free(Handle(0))
    apply_operation(pool, AdmitRequest(ONE, names, NUM_BLOCKS + 1, NUM_BLOCKS, NUM_BLOCKS))
    pool.take(ONE, GROUP, NUM_BLOCKS)
    blocks = list(pool.requests[ONE].held[GROUP])
    assert num_slices(pool, Commit([ONE], [KIND], [NUM_BLOCKS], [], blocks, [1])) > 3
    assert [pool.store.index.find(KIND, name) for name in names] == blocks


def test_blocks_committed_against_their_order_are_checked_in_slices() -> None:
    pool = pool_of(1)
    handle = Handle(0)
    pool.take(handle, GROUP, NUM_BLOCKS)
    blocks = pool.requests[handle].held[GROUP][::-1]
    names, ones = hashes(NUM_BLOCKS), [1] * NUM_BLOCKS
    slices = apply_in_slices(
        pool, Commit([handle] * NUM_BLOCKS, [KIND] * NUM_BLOCKS, ones, names, blocks)
    )
    num_before = sum(1 for _ in takewhile(lambda _: not pool.totals.commits, slices))
    assert num_before >= NUM_BLOCKS // 10
    finished(slices)
    assert len(pool.store.index.commitments(KIND)) == NUM_BLOCKS
    check_integrity(pool)


def test_the_end_of_many_requests_is_done_in_slices() -> None:
    pool = pool_of(500)
    handles = [Handle(number) for number in range(500)]
    assert num_slices(pool, Take(handles, [GROUP] * 500, [1] * 500)) > 1
    assert num_slices(pool, AheadRequest(handles[:100], [0] * 100)) > 3
    assert num_slices(pool, Settle(handles)) > 1
    assert num_slices(pool, Free(handles)) > 50
    assert pool.requests == {}
    check_integrity(pool)


def test_states_are_given_back_in_slices() -> None:
    operation = GiveBack([GROUP], [300], [BlockId(1)] * 300)
    assert is_long(operation)
    with pytest.raises(UsageError):
        num_slices(pool_of(1), operation)


@pytest.mark.parametrize(
    ("operation", "reason"),
    [
        (Take([ONE] * 500, [GROUP] * 500, [1] * 499 + [99]), Reason.NOT_GRANTED),
        (Settle([*[ONE] * 500, Handle(99)]), Reason.UNKNOWN_REQUEST),
        (Free([*map(Handle, range(10)), Handle(0)]), Reason.UNKNOWN_REQUEST),
        (AheadRequest([*map(Handle, range(10)), *map(Handle, range(90, 120))], [1] * 40),
         Reason.UNKNOWN_REQUEST),
        (Forget(GROUP, [BlockId(1)] * 500 + [BlockId(9_999)]), Reason.UNKNOWN_BLOCK),
        (Drop([ONE], [GROUP], [5000], [BlockId(7)] * 5000), Reason.NOT_HELD),
        (Commit([ONE], [KIND], [300], hashes(300), [BlockId(7)] * 300), Reason.ALREADY_COMMITTED),
    ],
)  # fmt: skip
def test_a_mistake_in_the_last_row_leaves_the_first_undone(
    operation: Operation, reason: Reason
) -> None:
    pool = pool_of(10)
    before = snapshot(pool)
    assert is_long(operation)
    slices = apply_in_slices(pool, operation)
    with pytest.raises(UsageError) as refusal:
        next(slices)
    assert refusal.value.reason is reason
    assert snapshot(pool) == before


def test_a_cache_in_use_is_not_reset() -> None:
    pool = pool_of(1)
    pool.take(Handle(0), GROUP, 10)
    assert finished(apply_in_slices(pool, ResetCache())) == CacheReset(is_done=False)
