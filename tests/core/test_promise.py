"""What is owed to a request: what it was promised, less what it has, plus what came back."""

import pytest

from kvquarry_core.ids import GroupId, Handle
from kvquarry_core.messages import Admission, AdmitRequest, Grant
from kvquarry_core.plan import Plan, make_plan
from kvquarry_core.pool import Pool
from kvquarry_core.promise import Promise
from tests.core import reference
from tests.core.random_walk import RandomWalk
from tests.core.retaining_engine import RetainingEngine
from tests.core.small_pools import attention, take_all, window
from tests.core.walk_pools import WALK_POOLS

R1 = Handle(1)
FIRST = GroupId(0)


def test_a_request_is_owed_no_more_than_it_may_hold_at_once() -> None:
    promise = Promise.of([10], [4])
    assert promise.owed(FIRST) == 4
    promise.granted(FIRST, 3)
    assert promise.owed(FIRST) == 1
    promise.dropped(FIRST, 1)
    assert promise.owed(FIRST) == 2


def test_nothing_is_owed_once_all_was_granted_whatever_comes_back() -> None:
    promise = Promise.of([3], [3])
    promise.granted(FIRST, 5)
    promise.dropped(FIRST, 3)
    assert promise.owed(FIRST) == 0


def test_what_was_not_spent_is_owed_again() -> None:
    promise = Promise.of([3], [3])
    promise.granted(FIRST, 2)
    promise.granted(FIRST, -2)
    assert promise.owed(FIRST) == 3


@pytest.mark.parametrize("chunk", [1, 2, 5])
def test_a_window_uses_up_nothing_of_what_attention_was_promised(chunk: int) -> None:
    """Both are of one size; attention is owed the rest of 40 tokens all the way."""
    pool = Pool(make_plan([attention(16), window(16, 4)], 80 * 16))
    answer: object = pool.admit(AdmitRequest(R1, [], 40, 0, chunk, must_fit_tokens=40))
    assert isinstance(answer, Admission)
    take_all(pool, R1)
    for length in range(chunk, 40, chunk):
        for block in pool.requests[R1].held[1][:-3]:
            pool.drop(R1, GroupId(1), block)
        left = 40 - length
        assert pool.requests.owed == [left + min(left, 3 + chunk - len(pool.requests[R1].held[1]))]
        answer = pool.grow(R1, [min(chunk, left)] * 2)
        assert isinstance(answer, Grant)
        take_all(pool, R1)
    assert pool.requests.owed == [0]


@pytest.mark.parametrize("plan", WALK_POOLS.values(), ids=WALK_POOLS)
def test_what_is_owed_in_all_is_what_is_owed_to_each(plan: Plan) -> None:
    engine = RetainingEngine(plan)
    walk = RandomWalk(engine, seed=3)
    for _ in range(300):
        walk.step()
        by_group = [
            sum(record.promise.owed(GroupId(group)) for record in engine.pool.requests.values())
            for group in range(len(engine.plan.groups))
        ]
        assert engine.pool.requests.owed == reference.by_class(engine.plan, by_group)
    walk.finish()
    assert not any(engine.pool.requests.owed)
