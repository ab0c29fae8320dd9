"""What fits is granted, what does not fit is not there, and the right blocks have to go."""

import copy
import random

import pytest

from kvquarry_core.allocator import Allocator
from kvquarry_core.demand import Demand
from kvquarry_core.ids import BlockId, ClassId, GroupId, Handle
from kvquarry_core.integrity import check_integrity
from kvquarry_core.messages import Grant
from kvquarry_core.plan import Plan, make_plan
from kvquarry_core.pool import Pool
from kvquarry_core.touched import Touched
from tests.core import reference
from tests.core.books import Books
from tests.core.memory import Key
from tests.core.random_walk import RandomWalk
from tests.core.retaining_engine import RetainingEngine
from tests.core.small_pools import STATES, attention, cache, grow, hashes, run, states, take_all
from tests.core.walk_pools import WALK_POOLS

every_pool = pytest.mark.parametrize("plan", WALK_POOLS.values(), ids=WALK_POOLS)


def any_demand(rng: random.Random, plan: Plan, used: list[set[BlockId]]) -> list[int]:
    """Blocks wanted of each class, mostly just about as many as there are."""
    demand = [rng.choice([0, 1, rng.randint(0, c.num_usable_blocks)]) for c in plan.classes]
    while not reference.fits(plan, used, demand) and rng.random() < 0.95:
        demand = [max(0, blocks - rng.randint(0, 1)) for blocks in demand]
    return demand


def any_rows(rng: random.Random, books: Books) -> set[Key]:
    """The blocks of some findable rows."""
    rows = [entry for entries in books.findable.values() for entry in entries]
    return {key for entry in rows if rng.random() < 0.3 for key in entry.keys}


def touching(blocks: list[set[BlockId]]) -> Touched | None:
    """Blocks that will be touched first, by class; None for none."""
    return Touched(list(map(len, blocks)), lambda: blocks) if any(blocks) else None


@every_pool
def test_fits_is_exact(plan: Plan) -> None:
    """Yes iff there is a way, with and without blocks that will be touched first."""
    answers = set()
    for seed in range(8):
        engine, rng = RetainingEngine(plan), random.Random(seed)
        walk = RandomWalk(engine, seed)
        for _ in range(150):
            walk.step()
            touched_keys = any_rows(rng, engine.books) if rng.random() < 0.5 else set()
            used = engine.books.used(touched_keys)
            demand = any_demand(rng, plan, used)
            touched: list[set[BlockId]] = [set() for _ in plan.classes]
            for size_class, block in touched_keys:
                touched[size_class].add(block)
            answer = engine.pool.gate.fits(demand, touching(touched))
            assert answer == reference.fits(plan, used, demand), f"seed {seed}: {demand}"
            answers.add(answer)
    assert answers == {True, False}


@every_pool
def test_what_fits_is_granted_without_fail(plan: Plan) -> None:
    """C17: once the gate has said yes, the allocator has to deliver."""
    num_promises = 0
    for seed in range(6):
        engine, rng = RetainingEngine(plan), random.Random(seed)
        walk = RandomWalk(engine, seed)
        for number in range(150):
            walk.step()
            demand = any_demand(rng, plan, engine.books.used())
            if number % 2 and engine.pool.gate.fits(demand):
                keep_promise(copy.deepcopy(engine.pool.allocator), demand)
                num_promises += 1
    assert num_promises > 100


def keep_promise(allocator: Allocator, demand: list[int]) -> None:
    """Take all of a demand that fits, the largest blocks first."""
    left, granted = Demand(list(demand), list(demand)), set()
    allocator.secure(left)
    for index in reversed(range(len(demand))):
        blocks = allocator.grant(ClassId(index), demand[index], None, left)
        granted |= {(index, block) for block in blocks}
    assert len(granted) == sum(demand), "a block was granted twice"
    assert not any(left.now)


def test_a_slab_emptied_by_the_way_is_kept_for_the_class_that_counts_on_it() -> None:
    """Clearing one slab of attention empties another: rows span both.

    The states could take that one as well and leave their own cached blocks alone. They must not:
    attention was promised a block of it.
    """
    plan = make_plan([attention(32), attention(32), states(80)], 8 * 160)
    pool = Pool(plan)
    run(pool, 0, "z")  # holds the rest of slab 0, and the first state of slab 1
    grow(pool, 0, [0, 0, 1])
    [state] = take_all(pool, 0)[2]
    pool.commit(Handle(0), STATES, hashes("y")[0], (state,))
    pool.drop(Handle(0), GroupId(2), state)  # cached, in a slab that is in use
    cache(pool, 1, "aaaaa")  # five rows of attention over slabs 2 and 3
    grow(pool, 0, [0, 0, 7])  # the rest of the pool
    take_all(pool, 0)
    check_integrity(pool)
    answer = pool.grow(Handle(0), [1, 0, 4])
    assert isinstance(answer, Grant)
    check_integrity(pool)
