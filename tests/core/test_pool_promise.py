"""Reserve is a promise: what was let in because all of it fits gets all of it, if it is alone."""

from collections.abc import Callable, Sequence
from functools import partial

import pytest

from kvquarry_core.ids import BlockHash, GroupId, Handle
from kvquarry_core.messages import Admission, AdmitRequest, Grant
from kvquarry_core.plan import Plan, make_plan
from kvquarry_core.pool import Pool
from tests.core import reference
from tests.core.random_walk import RandomWalk
from tests.core.retaining_engine import RetainingEngine
from tests.core.small_pools import ATTENTION, STATES, admit, attention, grow, states, take_all
from tests.core.walk_pools import WALK_POOLS

ALONE, HOLDER = Handle(1_000_000), Handle(1_000_001)


def longest_sequence(plan: Plan) -> int:
    """The most tokens whose blocks an empty pool holds."""
    num_tokens = 1
    while reference.ever_fits(
        plan, reference.by_class(plan, reference.new_blocks(plan, 0, num_tokens + 1))
    ):
        num_tokens += 1
    return num_tokens


def after_a_random_life(plan: Plan, seed: int) -> Pool:
    """All its requests are over; what they left is cached."""
    engine = RetainingEngine(plan)
    walk = RandomWalk(engine, seed)
    for _ in range(120):
        walk.step()
    walk.finish()
    return engine.pool


def grow_token_by_token(
    pool: Pool, num_tokens: int, give_up: Callable[[int, Sequence[int]], None]
) -> None:
    """From the first token to the last, with nobody else there.

    Args:
        pool: In which a request for so many tokens is let in.
        num_tokens: How many.
        give_up: Told of the length reached, and of the blocks by group that come next.
    """
    ask = AdmitRequest(ALONE, [], num_tokens, 0, max_grant_tokens=1, must_fit_tokens=num_tokens)
    answer: object = pool.admit(ask)
    assert isinstance(answer, Admission), answer
    take_all(pool, ALONE)
    total = reference.new_blocks(pool.plan, 0, 1)
    for length in range(2, num_tokens + 1):
        before, total = total, reference.new_blocks(pool.plan, 0, length)
        more = [blocks - had for blocks, had in zip(total, before, strict=True)]
        give_up(length - 1, more)
        answer = pool.grow(ALONE, more)
        assert isinstance(answer, Grant), f"token {length} of {num_tokens}: {answer}"
        take_all(pool, ALONE)


def keep_all(length: int, more: Sequence[int]) -> None:
    """Nothing is given back on the way."""


@pytest.mark.parametrize("plan", WALK_POOLS.values(), ids=WALK_POOLS)
def test_a_request_that_fits_grows_to_its_length_whatever_is_cached(plan: Plan) -> None:
    """C17: the gate said yes, and nobody took anything since."""
    num_tokens = longest_sequence(plan)
    for seed in range(10):
        grow_token_by_token(after_a_random_life(plan, seed), num_tokens, keep_all)


WINDOWED = {
    name: plan for name, plan in WALK_POOLS.items() if any(map(reference.is_windowed, plan.groups))
}


def longest_sliding_sequence(plan: Plan) -> int:
    """The most tokens, up to many, for which an empty pool holds all that is ever held at once."""
    num_tokens = 1
    while num_tokens < 80 and reference.ever_fits(plan, most_at_once(plan, num_tokens + 1)):
        num_tokens += 1
    return num_tokens


def most_at_once(plan: Plan, num_tokens: int) -> list[int]:
    """Blocks by class, for steps of one token."""
    wanted = reference.most_new_blocks(plan, 0, num_tokens, in_flight_tokens=1)
    return reference.by_class(plan, wanted)


def slide(pool: Pool, length: int, more: Sequence[int]) -> None:
    """What leaves a window is given back before more is asked for."""
    for group, spec in enumerate(pool.plan.groups):
        if reference.is_windowed(spec):
            held = pool.requests[ALONE].held[group]
            num_read = len(reference.held_positions(spec, length))
            for block in held[: max(len(held) + more[group] - num_read, 0)]:
                pool.drop(ALONE, GroupId(group), block)


@pytest.mark.parametrize("plan", WINDOWED.values(), ids=WINDOWED)
def test_a_window_goes_on_sliding_whatever_is_cached(plan: Plan) -> None:
    """C17 where the gate asked for less than the whole sequence, since blocks come back."""
    num_tokens = longest_sliding_sequence(plan)
    for seed in range(5):
        pool = after_a_random_life(plan, seed)
        grow_token_by_token(pool, num_tokens, partial(slide, pool))


def test_states_are_put_together_though_their_memory_was_not() -> None:
    """Two cached rows of two states each lie across two slabs.

    A request needs two states, which is one slab, and 32 blocks of attention, which are all the
    others. Its states must not take half of each slab.
    """
    pool = Pool(make_plan([attention(32), *[states(80)] * 2], 8 * 160))
    admit(pool, HOLDER, "h")
    pool.settle(HOLDER)
    grow(pool, HOLDER, [0, 2, 2])
    [_, first, second] = take_all(pool, HOLDER)
    for name, row in zip((b"x", b"y"), zip(first, second, strict=True), strict=True):
        pool.commit(HOLDER, STATES, BlockHash(name), row)
        for group, block in enumerate(row, start=1):
            pool.drop(HOLDER, GroupId(group), block)
    grow(pool, HOLDER, [27, 0, 0])
    for number, block in enumerate(take_all(pool, HOLDER)[0]):
        pool.commit(HOLDER, ATTENTION, BlockHash(b"%d" % number), (block,))
    pool.free(HOLDER)
    assert longest_sequence(pool.plan) == 32
    grow_token_by_token(pool, 32, keep_all)
