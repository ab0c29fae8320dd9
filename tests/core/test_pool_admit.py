"""Admission: the longest hit, touched, and the first chunk, granted; or a refusal."""

import pytest

from kvquarry_core.ids import LARGEST_HANDLE, ClassId, Handle
from kvquarry_core.messages import Admission, AdmitRequest, RefusalCause
from kvquarry_core.plan import make_plan
from kvquarry_core.pool import Pool
from tests.core.small_pools import (
    admit,
    attention,
    cache,
    grow,
    hashes,
    hybrid,
    one_class,
    refused,
    request,
    states,
    two_classes,
)

SMALL, LARGE = ClassId(0), ClassId(1)
R1, R2, HOLDER = Handle(1), Handle(2), Handle(100)


def hold(pool: Pool, num_blocks: int) -> None:
    """Grant some blocks of attention to a request that stays."""
    admit(pool, HOLDER, "h")
    pool.settle(HOLDER)
    grow(pool, HOLDER, [num_blocks])


def test_a_cold_request_is_granted_its_first_chunk_and_nothing_else() -> None:
    pool = hybrid()
    answer = admit(pool, R1, "abcde")
    assert (answer.hit_tokens, answer.hit_blocks) == (0, ([], [], []))
    assert [len(blocks) for blocks in answer.grant.blocks] == [5, 1, 1]
    assert pool.requests[R1].held == [[], [], []]
    assert pool.store.num_granted == [5, 2]


def test_a_hit_is_touched_and_only_the_rest_is_granted() -> None:
    pool = hybrid()
    cache(pool, R1, "abc")
    answer = admit(pool, R2, "abcde")
    assert answer.hit_tokens == 3
    assert [len(blocks) for blocks in answer.hit_blocks] == [3, 1, 1]
    assert [len(blocks) for blocks in answer.grant.blocks] == [2, 1, 1]
    for size_class, blocks in zip((SMALL, LARGE, LARGE), answer.hit_blocks, strict=True):
        assert all(pool.store.num_references(size_class, block) == 1 for block in blocks)


def test_two_requests_share_the_blocks_of_one_hit() -> None:
    pool = hybrid()
    cache(pool, R1, "abc")
    one, other = admit(pool, 2, "abcd"), admit(pool, 3, "abcx")
    assert one.hit_blocks == other.hit_blocks
    assert pool.store.num_references(SMALL, one.hit_blocks[0][0]) == 2
    assert not set(one.grant.blocks[0]) & set(other.grant.blocks[0])


@pytest.mark.parametrize("limit", range(6))
def test_the_hit_is_within_its_limit(limit: int) -> None:
    pool = Pool(one_class(num_blocks=20))
    cache(pool, R1, "abcdef")
    answer = pool.admit(AdmitRequest(R2, hashes("abcdef"), 6, limit, 1))
    assert isinstance(answer, Admission)
    assert answer.hit_tokens == limit


def test_the_largest_handle_is_a_handle() -> None:
    pool = Pool(one_class(num_blocks=20))
    cache(pool, LARGEST_HANDLE, "abc")
    assert admit(pool, R2, "abcd").hit_tokens == 3


def test_no_hashes_means_no_lookup() -> None:
    pool = Pool(one_class(num_blocks=20))
    cache(pool, R1, "abc")
    answer = pool.admit(AdmitRequest(R2, [], 4, 3, 4))
    assert isinstance(answer, Admission)
    assert answer.hit_tokens == 0


def test_the_grant_covers_the_chunk_the_lookahead_and_the_drafts() -> None:
    pool = Pool(make_plan([attention(16, 4), states(48, 4, 2)], 48 * 30))
    answer = pool.admit(AdmitRequest(R1, [], 40, 0, 13, lookahead_tokens=4))
    assert isinstance(answer, Admission)
    assert [len(blocks) for blocks in answer.grant.blocks] == [5, 3]


@pytest.mark.parametrize(("num_blocks", "granted"), [(10, 8), (8, 8), (7, 4), (3, 2), (1, 1)])
def test_where_the_chunk_does_not_fit_fewer_blocks_are_granted(
    num_blocks: int, granted: int
) -> None:
    answer = admit(Pool(one_class(num_blocks)), R1, "abcdefgh")
    assert len(answer.grant.blocks[0]) == granted


def test_a_request_that_must_fit_is_refused_though_its_first_chunk_would() -> None:
    pool = Pool(one_class(num_blocks=8))
    hold(pool, 3)
    answer = refused(pool.admit(request(R1, "abcdef", must_fit_tokens=6)))
    assert answer.cause is RefusalCause.SHORTAGE
    assert isinstance(pool.admit(request(R1, "abcdef", must_fit_tokens=5)), Admission)


def test_blocks_to_keep_free_are_counted_with_all_of_the_request() -> None:
    pool = Pool(one_class(num_blocks=8))
    ask = AdmitRequest(R1, [], 6, 0, 1, must_fit_tokens=6, keep_free_blocks=(3,))
    assert refused(pool.admit(ask)).wanted_blocks == (9,)
    ask = AdmitRequest(R1, [], 6, 0, 1, must_fit_tokens=6, keep_free_blocks=(2,))
    assert isinstance(pool.admit(ask), Admission)


def test_a_refusal_says_what_was_wanted_and_which_hit_to_expect() -> None:
    pool = Pool(one_class(num_blocks=5))
    cache(pool, R1, "ab")
    hold(pool, 3)
    answer = refused(pool.admit(request(R2, "abcd", must_fit_tokens=4)))
    assert (answer.cause, answer.hit_tokens) == (RefusalCause.SHORTAGE, 2)
    assert answer.wanted_blocks == (2,)


def test_a_refusal_says_how_many_blocks_each_class_could_have_had() -> None:
    """C13: unassigned slabs are there for any class to take, and belong to no other."""
    pool = Pool(two_classes(num_slabs=4))
    answer = refused(pool.admit(request(R1, "x" * 60, must_fit_tokens=60)))
    assert answer.available_blocks == (12, 4)


def test_the_blocks_of_the_hit_are_not_counted_as_evictable() -> None:
    """Four cached blocks of five are the hit itself: only one is left for its tail."""
    pool = Pool(one_class(num_blocks=5))
    cache(pool, R1, "abcd")
    refused(pool.admit(request(R2, "abcdef", must_fit_tokens=6)))
    assert isinstance(pool.admit(request(R2, "abcde", must_fit_tokens=5)), Admission)
