"""A checkpoint that its session outgrew goes first, under the eviction that asks for it."""

import pytest

from kvquarry_core.eviction import EVICTIONS, Eviction, Lru, Superseding
from kvquarry_core.ids import BlockHash, BlockId, ClassId, Handle
from kvquarry_core.integrity import check_integrity
from kvquarry_core.pool import Pool
from kvquarry_core.sessions import Sessions
from tests.core.random_walk import RandomWalk
from tests.core.session_engine import SessionEngine
from tests.core.small_pools import STATES, cache, grow, hashes, run, two_classes
from tests.core.walk_pools import WALK_POOLS

LARGE = ClassId(1)
NUM_OPERATIONS = 2500


def checkpoints(pool: Pool) -> list[bytes]:
    """What the cached states sum up, the next victim first."""
    found = [
        pool.store.contents.commitment(LARGE, block) for block in pool.store.cache.by_age(LARGE)
    ]
    return [one.block_hash for one in found if one is not None]


def turns(eviction: Eviction, *prompts: str) -> Pool:
    """One request after the other."""
    pool = Pool(two_classes(num_slabs=12), eviction=eviction)
    for handle, prompt in enumerate(prompts):
        cache(pool, handle, prompt)
        check_integrity(pool)
    return pool


def test_a_turn_outgrows_the_checkpoint_of_the_turn_before() -> None:
    pool = turns(Superseding(), "x", "ab", "abcd", "abcdef")
    assert checkpoints(pool) == [b"abcd", b"ab", b"x", b"abcdef"]
    slabs = [int(slab) for slab in pool.store.cache.idle_slabs(LARGE)]
    assert slabs == [int(block) for block in pool.store.cache.by_age(LARGE)]


def test_where_sessions_part_the_checkpoint_stays() -> None:
    assert checkpoints(turns(Superseding(), "ab", "x", "abc", "abd"))[0] == b"x"


def test_a_hit_alone_outgrows_nothing() -> None:
    pool = turns(Superseding(), "ab", "x")
    run(pool, 9, "abc")
    row = [pool.requests[Handle(9)].held[1][-1]]
    assert pool.store.contents.commitment(LARGE, row[0]) is not None
    pool.forget(pool.plan.kinds[STATES][0], row)
    pool.free(Handle(9))
    assert BlockHash(b"ab") in checkpoints(pool)


def test_an_outgrown_checkpoint_that_is_hit_again_stays() -> None:
    pool = turns(Superseding(), "x", "ab", "abcd")
    assert checkpoints(pool)[0] == b"ab"
    run(pool, 9, "abz")
    pool.free(Handle(9))
    assert checkpoints(pool)[0] == b"x"
    check_integrity(pool)


@pytest.mark.parametrize(("name", "gone"), [("session", {"ab"}), ("lru", set())])
def test_attention_takes_the_slab_of_an_outgrown_checkpoint_first(
    name: str, gone: set[str]
) -> None:
    """Though other content is older, which goes under recency alone."""
    pool = turns(EVICTIONS[name](), "xyz", "ab", "abcd")
    run(pool, 9, "q")
    slabs = pool.store.slabs
    free = slabs.num_free(ClassId(0)) + 3 * slabs.num_unassigned
    grow(pool, 9, [free, 0])
    grow(pool, 9, [1, 0])
    lost = {
        prompt
        for prompt in ("xyz", "ab", "abcd")
        if pool.store.index.find(STATES, hashes(prompt)[-1]) is None
    }
    assert lost == gone


def test_a_checkpoint_keeps_its_history_when_it_moves() -> None:
    sessions = Sessions(num_classes=2)
    source, beside, target = BlockId(4), BlockId(5), BlockId(9)
    sessions.note_hit(LARGE, (source, beside))
    sessions.outgrown[LARGE].update((source, beside))
    sessions.rename(LARGE, source, target)
    assert sessions.was_hit_once(LARGE, target)
    assert not sessions.was_hit_once(LARGE, source)
    assert sessions.outgrown[LARGE] == {target, beside}
    sessions.forget(LARGE, (target,))
    assert not sessions.was_hit_once(LARGE, target)
    assert sessions.outgrown[LARGE] == {beside}


def test_other_evictions_keep_the_order_of_use() -> None:
    assert checkpoints(turns(Lru(), "x", "ab", "abcd")) == [b"x", b"ab", b"abcd"]
    assert isinstance(EVICTIONS["session"](), Superseding)


@pytest.mark.parametrize("name", ["ratio 2.5", "three sizes"])
def test_any_history_lets_exactly_the_outgrown_go_first(name: str) -> None:
    engine = SessionEngine(WALK_POOLS[name])
    walk = RandomWalk(engine, seed=11)
    walk.run(NUM_OPERATIONS)
    walk.end()
    assert engine.num_outgrown > 2
