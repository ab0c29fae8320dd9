"""Long seeded runs: 20,000 operations on each pool, and nothing is left when all is freed."""

import pytest

from kvquarry_core.plan import Plan
from tests.core import reference
from tests.core.random_walk import RandomWalk
from tests.core.retaining_engine import RetainingEngine
from tests.core.walk_pools import WALK_POOLS

NUM_OPERATIONS = 20_000
#: All laws cost as much as many operations; every answer and every hit is checked in each.
CHECKED_EVERY = 25


@pytest.mark.parametrize("plan", WALK_POOLS.values(), ids=WALK_POOLS)
def test_a_long_run_keeps_every_law_and_leaves_nothing(plan: Plan) -> None:
    engine = RetainingEngine(plan)
    walk = RandomWalk(engine, seed=20_000)
    walk.run(NUM_OPERATIONS, checked_every=CHECKED_EVERY)
    if reference.can_hit(plan):
        assert walk.num_hits > 25, "a run without hits would check no content"
    else:
        assert not walk.num_hits
    assert (walk.num_pins > 25) == reference.can_hit(plan)
    assert walk.num_refusals > 50
    assert sum(engine.pool.store.num_evictions) > 100
    if len(plan.classes) > 1:
        assert min(map(sum, engine.pool.store.slabs.num_class_changes)) > 50
    walk.end()
