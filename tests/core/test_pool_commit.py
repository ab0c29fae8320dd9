"""Commits: what can be hit, from when on, and at which length."""

import pytest

from kvquarry_core.errors import Reason, UsageError
from kvquarry_core.ids import ClassId, Handle, KindId
from kvquarry_core.integrity import check_integrity
from kvquarry_core.messages import Admission, AdmitRequest, FullRows, RefusalCause
from kvquarry_core.pool import Pool
from tests.core.small_pools import (
    ATTENTION,
    STATES,
    admit,
    cache,
    commit_all,
    hashes,
    hybrid,
    one_class,
    refused,
    request,
    run,
    take_all,
)

R1, R2, R3 = Handle(1), Handle(2), Handle(3)
LARGE = ClassId(1)


def test_attention_can_be_hit_in_the_same_step() -> None:
    """Two equal prompts in one step: the second one uses the blocks of the first."""
    pool = Pool(one_class(num_blocks=20))
    run(pool, R1, "abc")
    assert admit(pool, R2, "abcd").hit_tokens == 3


def test_a_state_is_refused_until_the_next_step() -> None:
    pool = hybrid()
    run(pool, R1, "abc")
    for _ in range(2):
        answer = refused(pool.admit(request(R2, "abcd")))
        assert (answer.cause, answer.hit_tokens) == (RefusalCause.SAME_STEP, 3)
    pool.begin_step()
    assert admit(pool, R2, "abcd").hit_tokens == 3


def test_a_state_is_refused_in_its_step_even_after_its_request_is_over() -> None:
    pool = hybrid()
    run(pool, R1, "abc")
    pool.free(R1)
    assert refused(pool.admit(request(R2, "abcd"))).cause is RefusalCause.SAME_STEP


def test_a_young_state_does_not_stop_requests_that_do_not_hit_it() -> None:
    pool = hybrid()
    cache(pool, R1, "ab")
    run(pool, R2, "xyz")
    assert admit(pool, R3, "abc").hit_tokens == 2
    within = AdmitRequest(
        Handle(4), hashes("xyzw"), num_tokens=4, max_hit_tokens=2, max_grant_tokens=4
    )
    assert isinstance(pool.admit(within), Admission), "its hit may not reach the young state"


def test_the_older_of_two_equal_states_is_hit_in_the_step_of_the_younger() -> None:
    pool = hybrid()
    cache(pool, R1, "abc")
    admit(pool, R2, "xyz")
    [_, *rows] = take_all(pool, R2)
    pool.commit(R2, STATES, hashes("abc")[-1], tuple(row[0] for row in rows))
    assert admit(pool, R3, "abcd").hit_tokens == 3


def test_two_rows_of_equal_content_are_both_kept_and_the_older_is_hit() -> None:
    """Two requests computed the same block at the same time."""
    pool = Pool(one_class(num_blocks=20))
    for handle in (R1, R2):
        admit(pool, handle, "abc")
    rows = [take_all(pool, handle)[0] for handle in (R1, R2)]
    for handle in (R1, R2):
        commit_all(pool, handle, "abc")
    assert admit(pool, R3, "abcd").hit_blocks[0] == rows[0]
    assert len(pool.store.index.commitments(ATTENTION)) == 6


def test_a_state_is_hit_at_exactly_its_position() -> None:
    """C20: never before it and never after it, whatever attention has."""
    pool = hybrid()
    cache(pool, R1, "abcde")
    assert admit(pool, 2, "abcdex").hit_tokens == 5
    assert admit(pool, 3, "abcdx").hit_tokens == 0
    assert admit(pool, 4, "abcde").hit_tokens == 0


def test_whoever_hits_a_state_is_granted_another_one_to_write() -> None:
    """C20: only its sole owner may write a block; what was hit is never one's own."""
    pool = hybrid()
    cache(pool, R1, "abc")
    answer = admit(pool, R2, "abcd")
    for group in (1, 2):
        [hit], [granted] = answer.hit_blocks[group], answer.grant.blocks[group]
        assert hit != granted
        assert pool.store.contents.commitment(LARGE, hit) is not None
        assert pool.store.contents.commitment(LARGE, granted) is None


def test_rows_committed_together_may_come_in_any_order_and_none_twice() -> None:
    pool = Pool(one_class(num_blocks=20))
    admit(pool, R1, "abc")
    [blocks] = take_all(pool, R1)
    names = hashes("abc")
    pool.commit_rows([FullRows(R1, ATTENTION, names[n : n + 1], blocks[n : n + 1]) for n in (1, 0)])
    with pytest.raises(UsageError) as twice:
        pool.commit(R1, ATTENTION, names[1], (blocks[1],))
    assert twice.value.reason is Reason.ALREADY_COMMITTED
    pool.commit(R1, ATTENTION, names[2], (blocks[2],))
    assert admit(pool, R2, "abcd").hit_tokens == 3
    check_integrity(pool)


def test_a_run_of_no_rows_changes_nothing() -> None:
    pool = hybrid()
    run(pool, R1, "abc")
    check_integrity(pool)
    for kind in range(len(pool.plan.kinds)):
        pool.commit_rows([FullRows(R1, KindId(kind), [], [])])
    check_integrity(pool)
    pool.begin_step()
    assert admit(pool, R2, "abcd").hit_tokens == 3
