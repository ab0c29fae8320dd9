"""The engine's stock of states, and blocks granted ahead."""

import pytest

from kvquarry_core.errors import Reason, UsageError
from kvquarry_core.ids import BlockHash, BlockId, ClassId, GroupId, Handle
from kvquarry_core.integrity import check_integrity
from kvquarry_core.messages import (
    Admission,
    AdmitRequest,
    AheadGrant,
    AheadRequest,
    Grant,
    GrowRequest,
    LeaseRequest,
    Refusal,
    RefusalCause,
)
from kvquarry_core.plan import make_plan
from kvquarry_core.pool import Pool
from kvquarry_core.usage import usage_of
from tests.core.small_pools import (
    ATTENTION,
    STATES,
    admit,
    cache,
    grow,
    hashes,
    hybrid,
    one_class,
    refused,
    request,
    states,
    take_all,
    two_classes,
)
from tests.core.snapshot import snapshot

SMALL, LARGE = ClassId(0), ClassId(1)
G0, G1, G2 = GroupId(0), GroupId(1), GroupId(2)
R1, R2, R3 = Handle(1), Handle(2), Handle(3)


def lease(pool: Pool, num_blocks: list[int]) -> tuple[list[BlockId], ...]:
    """A lease that is sure to fit."""
    answer = pool.lease_blocks(num_blocks)
    assert isinstance(answer, Grant), answer
    return answer.blocks


def leasing(handle: Handle, prompt: str, *, must_fit_tokens: int = 0) -> AdmitRequest:
    """A request that runs on leased states."""
    num_tokens = len(prompt)
    return AdmitRequest(
        handle,
        hashes(prompt),
        num_tokens,
        max_hit_tokens=num_tokens - 1,
        max_grant_tokens=num_tokens,
        must_fit_tokens=must_fit_tokens,
        states_are_leased=True,
    )


class TestLease:
    def test_leased_blocks_count_as_granted_and_go_back(self) -> None:
        pool = hybrid()
        before = usage_of(pool)
        blocks = lease(pool, [0, 2, 3])
        assert [len(some) for some in blocks] == [0, 2, 3]
        assert usage_of(pool).classes[1].granted == 5
        check_integrity(pool)
        for group in (G1, G2):
            pool.give_back(group, blocks[group])
        assert usage_of(pool) == before
        check_integrity(pool)

    def test_leased_blocks_are_nobody_elses(self) -> None:
        pool = Pool(two_classes(num_slabs=4))
        [_, leased] = lease(pool, [0, 3])
        assert isinstance(pool.admit(request(R1, "a")), Refusal)
        pool.give_back(G1, leased[:1])
        [state] = admit(pool, R1, "a").grant.blocks[1]
        assert state not in leased[1:]

    def test_a_lease_evicts_what_is_cached(self) -> None:
        pool = Pool(two_classes(num_slabs=4))
        cache(pool, R1, "abc")
        assert len(lease(pool, [0, 4])[1]) == 4
        assert pool.store.index.commitments(ATTENTION) == []
        check_integrity(pool)

    def test_a_refused_lease_changes_nothing(self) -> None:
        pool = Pool(two_classes(num_slabs=4))
        admit(pool, R1, "abc")
        before = snapshot(pool)
        answer = refused(pool.lease_blocks([0, 3]))
        assert (answer.cause, answer.wanted_blocks) == (RefusalCause.SHORTAGE, (0, 3))
        assert snapshot(pool) == before
        assert pool.totals.refusals == 1

    def test_a_lease_beyond_the_pool_never_fits(self) -> None:
        pool = Pool(two_classes(num_slabs=4))
        assert refused(pool.lease_blocks([0, 5])).cause is RefusalCause.NEVER_FITS

    def test_freeing_a_request_leaves_the_lease(self) -> None:
        pool = hybrid()
        lease(pool, [0, 1, 1])
        admit(pool, R1, "abc")
        pool.free(R1)
        assert [len(blocks) for blocks in pool.lease.blocks] == [0, 1, 1]
        check_integrity(pool)


class TestCheckpointsOfLeasedStates:
    def running(self) -> tuple[Pool, tuple[BlockId, ...]]:
        """A request on leased states with its attention spent, and a row of leased states."""
        pool = hybrid()
        row = tuple(blocks[0] for blocks in lease(pool, [0, 2, 2])[1:])
        assert isinstance(pool.admit(leasing(R1, "abc")), Admission)
        pool.take(R1, G0, 3)
        for name, block in zip(hashes("abc"), list(pool.requests[R1].held[0]), strict=True):
            pool.commit(R1, ATTENTION, name, (block,))
        return pool, row

    def test_a_leased_state_becomes_the_requests_own(self) -> None:
        pool, row = self.running()
        pool.commit(R1, STATES, hashes("abc")[-1], row)
        assert [pool.requests[R1].held[group] for group in (1, 2)] == [[row[0]], [row[1]]]
        assert [len(blocks) for blocks in pool.lease.blocks] == [0, 1, 1]
        assert pool.store.num_granted[LARGE] == 2
        check_integrity(pool)

    def test_it_can_be_hit_from_the_next_step_on(self) -> None:
        pool, row = self.running()
        pool.commit(R1, STATES, hashes("abc")[-1], row)
        pool.free(R1)
        assert refused(pool.admit(leasing(R2, "abcd"))).cause is RefusalCause.SAME_STEP
        pool.begin_step()
        answer = pool.admit(leasing(R2, "abcd"))
        assert isinstance(answer, Admission)
        assert (answer.hit_tokens, answer.hit_blocks[1]) == (3, [row[0]])
        assert [len(blocks) for blocks in answer.grant.blocks] == [1, 0, 0]

    def test_a_row_may_be_leased_in_part(self) -> None:
        """One group's state was granted to the request, the other one's was leased."""
        pool, row = self.running()
        [_, [own], _] = grow(pool, R1, [0, 1, 0]).blocks
        pool.take(R1, G1, 1)
        pool.commit(R1, STATES, hashes("abc")[-1], (own, row[1]))
        assert pool.requests[R1].held[1:] == [[own], [row[1]]]
        check_integrity(pool)

    def test_a_commit_that_is_refused_leaves_the_lease_as_it_was(self) -> None:
        pool, row = self.running()
        before = snapshot(pool)
        for wrong in ((row[0], row[0]), (row[1], row[0]), (row[0], BlockId(19))):
            with pytest.raises(UsageError) as caught:
                pool.commit(R1, STATES, BlockHash(b"x"), wrong)
            assert caught.value.reason is Reason.NOT_HELD
            assert snapshot(pool) == before

    def test_a_state_that_was_handed_over_is_not_leased_any_more(self) -> None:
        pool, row = self.running()
        pool.commit(R1, STATES, hashes("abc")[-1], row)
        before = snapshot(pool)
        with pytest.raises(UsageError) as caught:
            pool.give_back(G1, [row[0]])
        assert caught.value.reason is Reason.NOT_GRANTED
        assert snapshot(pool) == before

    def test_a_model_of_states_alone_counts_its_lookups(self) -> None:
        """C06: no attention block is ever spent here, but there are hits to be counted."""
        pool = Pool(make_plan([states(16)], 16 * 20))
        lease(pool, [4])
        for handle, prompt in ((R1, "abc"), (R2, "abcd")):
            answer = pool.admit(leasing(handle, prompt))
            assert isinstance(answer, Admission)
            leased = min(pool.lease.blocks[0])
            pool.commit(handle, ATTENTION, hashes(prompt)[-1], (leased,))
            pool.begin_step()
        assert (pool.totals.admissions, pool.totals.query_tokens) == (2, 7)
        assert pool.totals.hit_tokens == 3


def test_a_leasing_request_is_granted_attention_alone_and_sized_by_it() -> None:
    pool = Pool(two_classes(num_slabs=4))
    lease(pool, [0, 3])
    refused(pool.admit(request(R1, "abc", must_fit_tokens=3)))
    answer = pool.admit(leasing(R1, "abc", must_fit_tokens=3))
    assert isinstance(answer, Admission)
    assert [len(blocks) for blocks in answer.grant.blocks] == [3, 0]


@pytest.mark.parametrize(
    ("group", "blocks", "reason"),
    [
        (3, [1], Reason.UNKNOWN_GROUP),
        (1, [0], Reason.UNKNOWN_BLOCK),
        (1, [99], Reason.UNKNOWN_BLOCK),
        (1, ["first", "first"], Reason.NOT_GRANTED),
        (2, ["first"], Reason.NOT_GRANTED),
        (1, ["first", 19], Reason.NOT_GRANTED),
    ],
)
def test_only_what_is_leased_is_taken_back(
    group: int, blocks: list[int | str], reason: Reason
) -> None:
    pool = hybrid()
    first = lease(pool, [0, 1, 1])[1][0]
    before = snapshot(pool)
    named = [first if block == "first" else BlockId(int(block)) for block in blocks]
    with pytest.raises(UsageError) as caught:
        pool.give_back(GroupId(group), named)
    assert caught.value.reason is reason
    assert snapshot(pool) == before


class TestAhead:
    def pool(self, num_blocks: int) -> Pool:
        """Two requests that hold one block each."""
        pool = Pool(one_class(num_blocks))
        for handle in (R1, R2):
            admit(pool, handle, "a")
            take_all(pool, handle)
        return pool

    @pytest.mark.parametrize(
        ("num_blocks", "granted"),
        [(34, [4, 4]), (12, [4, 4]), (10, [4, 4]), (9, [4, 0]), (5, [0, 0])],
    )
    def test_luxury_goes_request_by_request_while_a_sixteenth_is_left(
        self, num_blocks: int, granted: list[int]
    ) -> None:
        pool = self.pool(num_blocks)
        answer = pool.grant_ahead(AheadRequest([R1, R2], [4, 4]))
        assert [len(grant.blocks[0]) for grant in answer.grants] == granted
        check_integrity(pool)

    def test_states_are_not_granted_ahead(self) -> None:
        pool = hybrid()
        admit(pool, R1, "abc")
        [grant] = pool.grant_ahead(AheadRequest([R1], [2])).grants
        assert [len(blocks) for blocks in grant.blocks] == [2, 0, 0]

    @pytest.mark.parametrize(("num_cached", "granted"), [(67, [2, 2]), (49, [2, 0]), (16, [0, 0])])
    def test_in_a_pool_full_of_content_a_sixteenth_of_it_may_go(
        self, num_cached: int, granted: list[int]
    ) -> None:
        pool = self.full_of_content(num_cached)
        answer = pool.grant_ahead(AheadRequest([R1, R2], [2, 2]))
        assert [len(grant.blocks[0]) for grant in answer.grants] == granted
        assert pool.store.num_own()[0] == num_cached - sum(granted)
        check_integrity(pool)

    def full_of_content(self, num_cached: int) -> Pool:
        """Two requests with a block and a state each, so many cached blocks, and nothing free."""
        num_slabs = (2 + num_cached) // 3 + 3
        pool = Pool(two_classes(num_slabs))
        for handle in (R1, R2):
            admit(pool, handle, "a")
            take_all(pool, handle)
        cache(pool, R3, "".join(map(chr, range(1000, 1000 + num_cached))))
        assert pool.store.free_memory().blocks == [0, 0]
        return pool

    def test_what_was_not_spent_goes_back(self) -> None:
        pool = self.pool(34)
        before = usage_of(pool)
        pool.grant_ahead(AheadRequest([R1, R2], [4, 4]))
        for handle in (R1, R2):
            pool.settle(handle)
        assert usage_of(pool) == before

    @pytest.mark.parametrize(
        ("handles", "num_blocks", "reason"),
        [
            ([R1, Handle(77)], [1, 1], Reason.UNKNOWN_REQUEST),
            ([R1, R2], [1], Reason.INVALID_ARGUMENT),
            ([R1, R2], [1, -1], Reason.INVALID_ARGUMENT),
        ],
    )
    def test_a_wrong_call_grants_nothing(
        self, handles: list[Handle], num_blocks: list[int], reason: Reason
    ) -> None:
        pool = self.pool(34)
        before = snapshot(pool)
        with pytest.raises(UsageError) as caught:
            pool.grant_ahead(AheadRequest(handles, num_blocks))
        assert caught.value.reason is reason
        assert snapshot(pool) == before


def test_every_ask_gets_its_kind_of_answer() -> None:
    pool = hybrid()
    assert isinstance(pool.answer(request(R1, "abc")), Admission)
    assert isinstance(pool.answer(GrowRequest(R1, [1, 0, 0])), Grant)
    assert isinstance(pool.answer(LeaseRequest([0, 1, 1])), Grant)
    assert isinstance(pool.answer(AheadRequest([R1], [1])), AheadGrant)
    assert isinstance(pool.answer(LeaseRequest([0, 99, 0])), Refusal)
    assert len(pool.requests[R1].granted[0]) == 3 + 1 + 1
