"""A pool whose groups reach back a limited way, never share, or grow only at their start."""

import pytest

from kvquarry_core.errors import Reason, UsageError
from kvquarry_core.ids import ClassId, GroupId, Handle, KindId
from kvquarry_core.integrity import check_integrity
from kvquarry_core.messages import Admission, AdmitRequest, AheadRequest, RefusalCause
from kvquarry_core.plan import GroupSpec, make_plan
from kvquarry_core.pool import Pool
from tests.core.small_pools import (
    admit,
    attention,
    cross,
    hashes,
    refused,
    request,
    scratch,
    take_all,
    window,
)

R1, R2 = Handle(1), Handle(2)
FULL, SLIDING = GroupId(0), GroupId(1)
WINDOW_KIND = KindId(1)


def pool_of(*groups: GroupSpec, num_blocks: int = 60) -> Pool:
    """Blocks of one size."""
    return Pool(make_plan(groups, (num_blocks + 1) * 16))


def commit_rows(pool: Pool, handle: Handle, prompt: str) -> None:
    """Everything a request holds, at its place."""
    for kind, members in enumerate(pool.plan.kinds):
        columns = [pool.requests[handle].held[group] for group in members]
        for name, row in zip(hashes(prompt), zip(*columns, strict=True), strict=True):
            pool.commit(handle, KindId(kind), name, row)


def test_a_hit_touches_only_the_blocks_within_the_window() -> None:
    pool = pool_of(attention(16), window(16, 4))
    admit(pool, R1, "abcdef")
    [_, slid] = take_all(pool, R1)
    commit_rows(pool, R1, "abcdef")
    answer = admit(pool, R2, "abcdefg")
    assert answer.hit_tokens == 6
    assert len(answer.hit_blocks[FULL]) == 6
    assert answer.hit_blocks[SLIDING] == slid[3:6]
    check_integrity(pool)


def test_blocks_that_left_the_window_are_hit_until_they_are_evicted() -> None:
    pool = pool_of(attention(16), window(16, 3))
    admit(pool, R1, "abcdef")
    [_, slid] = take_all(pool, R1)
    commit_rows(pool, R1, "abcdef")
    for block in slid[:4]:
        pool.drop(R1, SLIDING, block)
    assert pool.store.cache.num_cached(ClassId(0)) == 4
    assert admit(pool, R2, "abcxyz").hit_tokens == 3
    check_integrity(pool)


def test_evicting_one_member_of_a_row_leaves_no_orphan() -> None:
    """Two groups slide together: when a block of the one goes, that of the other is free too."""
    pool = pool_of(attention(16), window(16, 3), window(16, 3), num_blocks=12)
    admit(pool, R1, "ab")
    [_, one, other] = take_all(pool, R1)
    commit_rows(pool, R1, "ab")
    for group, blocks in ((1, one), (2, other)):
        pool.drop(R1, GroupId(group), blocks[0])
    assert pool.store.cache.num_cached(ClassId(0)) == 2
    free = pool.store.slabs.num_free(ClassId(0))
    granted = pool.grow(R1, [free + 1, 0, 0])
    assert not hasattr(granted, "cause"), granted
    assert pool.store.cache.num_cached(ClassId(0)) == 0
    assert pool.store.slabs.num_free(ClassId(0)) == 1
    assert pool.store.index.find(WINDOW_KIND, hashes("a")[0]) is None
    check_integrity(pool)


def test_a_long_request_is_admitted_where_only_its_windows_fit() -> None:
    """C16: 40 tokens, of which two windows of 4 and a chunk of 2 are ever held: 5 blocks each."""
    pool = pool_of(window(16, 4), window(16, 4), num_blocks=10)
    ask = AdmitRequest(R1, [], 40, 0, max_grant_tokens=2, must_fit_tokens=40)
    answer = pool.admit(ask)
    assert isinstance(answer, Admission), answer
    take_all(pool, R1)
    for length in range(4, 41, 2):
        for group, held in enumerate(pool.requests[R1].held):
            for block in held[: max(len(held) - 3, 0)]:
                pool.drop(R1, GroupId(group), block)
        assert not hasattr(pool.grow(R1, [2, 2]), "cause"), f"no room for token {length}"
        take_all(pool, R1)
    check_integrity(pool)


def test_one_block_less_than_the_windows_take_never_fits() -> None:
    pool = pool_of(window(16, 4), window(16, 4), num_blocks=9)
    ask = AdmitRequest(R1, [], 40, 0, max_grant_tokens=2, must_fit_tokens=40)
    assert refused(pool.admit(ask)).cause is RefusalCause.NEVER_FITS


def test_tokens_in_flight_are_asked_for_where_steps_overlap() -> None:
    pool = pool_of(window(16, 4), window(16, 4), num_blocks=10)
    ask = AdmitRequest(R1, [], 40, 0, 2, must_fit_tokens=40, in_flight_tokens=4)
    assert refused(pool.admit(ask)).wanted_blocks == (14,)


def test_a_request_gets_one_block_of_scratch_and_all_of_its_encoder() -> None:
    pool = pool_of(attention(16), scratch(16), cross(16, 4))
    ask = AdmitRequest(R1, [], 6, 0, 6, encoder_tokens=10)
    answer = pool.admit(ask)
    assert isinstance(answer, Admission)
    assert [len(blocks) for blocks in answer.grant.blocks] == [6, 1, 3]
    ahead = pool.grant_ahead(AheadRequest([R1], [2]))
    assert [len(blocks) for blocks in ahead.grants[0].blocks] == [2, 0, 0]


@pytest.mark.parametrize("spec", [scratch(16), cross(16)], ids=["scratch", "cross attention"])
def test_what_no_hash_names_is_never_committed(spec: GroupSpec) -> None:
    pool = pool_of(attention(16), spec)
    answer = pool.admit(AdmitRequest(R1, [], 1, 0, 1, encoder_tokens=1))
    assert isinstance(answer, Admission)
    [_, [block]] = take_all(pool, R1)
    with pytest.raises(UsageError, match="never shared") as caught:
        pool.commit(R1, KindId(1), hashes("a")[0], (block,))
    assert caught.value.reason is Reason.INVALID_ARGUMENT
    check_integrity(pool)


def test_a_hit_beside_scratch_takes_new_scratch() -> None:
    pool = pool_of(attention(16), scratch(16, 5))
    admit(pool, R1, "abc")
    take_all(pool, R1)
    for name, block in zip(hashes("abc"), pool.requests[R1].held[0], strict=True):
        pool.commit(R1, KindId(0), name, (block,))
    answer = pool.admit(request(2, "abcd"))
    assert isinstance(answer, Admission)
    assert (answer.hit_tokens, answer.hit_blocks[1]) == (3, [])
    assert [len(blocks) for blocks in answer.grant.blocks] == [1, 1]
