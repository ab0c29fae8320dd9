"""Leased states are the client's as a whole; a request owns one from its commit on."""

import pytest

from kvquarry_core.errors import Reason, UsageError
from kvquarry_core.ids import BlockHash, BlockId, GroupId, Handle, KindId
from kvquarry_core.integrity import check_integrity
from kvquarry_core.messages import Admission, AdmitRequest, AheadRequest, Grant, Refusal
from kvquarry_core.plan import GroupKind, GroupSpec, make_plan
from kvquarry_core.pool import Pool
from kvquarry_core.usage import usage_of

ATTENTION = GroupSpec(GroupKind.FULL_ATTENTION, 4, 64, 1)
STATE = GroupSpec(GroupKind.RECURRENT_STATE, 4, 192, 1)
STATES, ONE = KindId(1), Handle(1)


def hybrid(num_slabs: int = 8) -> Pool:
    return Pool(make_plan([STATE, STATE, ATTENTION], num_slabs * 192))


def leased(pool: Pool, num_rows: int) -> tuple[list[BlockId], ...]:
    grant = pool.lease_blocks([num_rows, num_rows, 0])
    assert isinstance(grant, Grant), grant
    check_integrity(pool)
    return grant.blocks


def admitted(pool: Pool, handle: Handle = ONE) -> Admission:
    ask = AdmitRequest(handle, [], 8, 0, 8, states_are_leased=True)
    answer = pool.admit(ask)
    assert isinstance(answer, Admission), answer
    check_integrity(pool)
    return answer


def test_a_request_on_leased_states_is_granted_none() -> None:
    pool = hybrid()
    assert [len(blocks) for blocks in admitted(pool).grant.blocks] == [0, 0, 2]


def test_leased_blocks_count_as_granted_until_they_come_back() -> None:
    pool = hybrid()
    first, second, _ = leased(pool, 2)
    assert usage_of(pool).classes[1].granted == 4
    pool.give_back(GroupId(0), first)
    pool.give_back(GroupId(1), second)
    check_integrity(pool)
    assert usage_of(pool).used_bytes == 0


def test_a_committed_state_is_its_requests_and_stays_cached_after_it() -> None:
    pool = hybrid()
    first, second, _ = leased(pool, 1)
    admitted(pool)
    pool.commit(ONE, STATES, BlockHash(b"x"), (first[0], second[0]))
    check_integrity(pool)
    assert pool.requests[ONE].held[:2] == [first, second]
    assert pool.lease.blocks == [set(), set(), set()]
    pool.free(ONE)
    check_integrity(pool)
    assert usage_of(pool).classes[1].cached == 2


def test_a_row_that_is_not_all_leased_is_no_commit() -> None:
    pool = hybrid()
    first, _, _ = leased(pool, 1)
    admitted(pool)
    with pytest.raises(UsageError) as caught:
        pool.commit(ONE, STATES, BlockHash(b"x"), (first[0], BlockId(7)))
    assert caught.value.reason is Reason.NOT_HELD
    assert pool.lease.blocks[0] == set(first)
    check_integrity(pool)


@pytest.mark.parametrize("blocks", [[7], [0], [1, 1]])
def test_only_leased_blocks_can_be_given_back_and_only_once(blocks: list[int]) -> None:
    pool = hybrid()
    leased(pool, 1)
    before = [set(blocks) for blocks in pool.lease.blocks]
    with pytest.raises(UsageError):
        pool.give_back(GroupId(0), [BlockId(block) for block in blocks])
    assert pool.lease.blocks == before
    check_integrity(pool)


def test_a_lease_that_does_not_fit_changes_nothing() -> None:
    pool = hybrid(num_slabs=4)
    answer = pool.lease_blocks([9, 9, 0])
    assert isinstance(answer, Refusal)
    assert usage_of(pool).used_bytes == 0
    check_integrity(pool)


def test_ahead_is_granted_while_memory_is_plenty_and_not_at_its_end() -> None:
    pool = Pool(make_plan([ATTENTION], 33 * 64))
    for handle in (ONE, Handle(2)):
        admitted(pool, handle)
    plenty, scarce = pool.grant_ahead(AheadRequest([ONE, Handle(2)], [20, 20])).grants
    assert [len(plenty.blocks[0]), len(scarce.blocks[0])] == [20, 0]
    check_integrity(pool)


def test_ahead_for_an_unknown_request_grants_nobody_anything() -> None:
    pool = hybrid()
    admitted(pool)
    before = usage_of(pool)
    with pytest.raises(UsageError) as caught:
        pool.grant_ahead(AheadRequest([ONE, Handle(9)], [1, 1]))
    assert caught.value.reason is Reason.UNKNOWN_REQUEST
    assert usage_of(pool) == before
