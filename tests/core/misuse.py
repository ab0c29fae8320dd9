"""Calls that break the protocol, and the reason each has to be refused with."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from kvquarry_core.errors import Reason
from kvquarry_core.ids import LARGEST_HANDLE, BlockHash, BlockId, GroupId, Handle, KindId
from kvquarry_core.messages import AdmitRequest
from kvquarry_core.pool import Pool
from tests.core.small_pools import ATTENTION, STATES, admit, cache, run, take_all, two_classes

#: Running, with three blocks of attention and one state in each of two groups, all committed; and
#: with one more of each granted.
RUNNING = Handle(1)
#: Shares the blocks of `RUNNING`'s prefix, with an uncommitted block of its own.
SHARING = Handle(2)
#: Shares with nobody; its block of attention is committed.
ALONE = Handle(3)
STRANGER = Handle(77)

G0, G1, G2 = GroupId(0), GroupId(1), GroupId(2)
NAME = BlockHash(b"name")
VALID = AdmitRequest(STRANGER, [], num_tokens=4, max_hit_tokens=3, max_grant_tokens=4)


def busy_pool() -> Pool:
    """A pool in the middle of things."""
    pool = Pool(two_classes(num_slabs=20, num_state_groups=2))
    cache(pool, 90, "xyz")
    run(pool, RUNNING, "abc")
    pool.begin_step()
    admit(pool, SHARING, "abcd")
    take_all(pool, SHARING)
    run(pool, ALONE, "q")
    pool.grow(RUNNING, [1, 1, 1])
    return pool


def held(pool: Pool, handle: Handle, group: int, place: int = -1) -> BlockId:
    """A block of a request."""
    return pool.requests[handle].held[group][place]


def granted(pool: Pool, group: int) -> BlockId:
    """The block granted to `RUNNING`."""
    return pool.requests[RUNNING].granted[group][0]


def cached(pool: Pool) -> BlockId:
    """A block of attention that nobody references."""
    return next(pool.store.cache.by_age(pool.plan.class_of_group[0]))


@dataclass(frozen=True)
class Misuse:
    """A wrong call."""

    reason: Reason
    call: Callable[[Pool], object]


def admission(**changes: object) -> Misuse:
    """An admission with some fields wrong."""
    return Misuse(Reason.INVALID_ARGUMENT, lambda pool: pool.admit(replace(VALID, **changes)))  # type: ignore[arg-type]


def commit(reason: Reason, *places: Callable[[Pool], BlockId], kind: int = 0) -> Misuse:
    """A commit by `SHARING` of blocks that it may not commit."""
    return Misuse(
        reason,
        lambda pool: pool.commit(
            SHARING, KindId(kind), NAME, tuple(place(pool) for place in places)
        ),
    )


MISUSES: dict[str, Misuse] = {
    "admit under a negative handle": admission(handle=-1),
    "admit under too large a handle": admission(handle=LARGEST_HANDLE + 1),
    "admit without tokens": admission(num_tokens=0, max_hit_tokens=0),
    "admit with a hit of all tokens": admission(max_hit_tokens=4),
    "admit with a negative hit": admission(max_hit_tokens=-1),
    "admit without a grant": admission(max_grant_tokens=0),
    "admit with negative lookahead": admission(lookahead_tokens=-1),
    "admit with a negative size": admission(must_fit_tokens=-1),
    "admit with too few blocks to keep": admission(keep_free_blocks=(1,)),
    "admit with negative blocks to keep": admission(keep_free_blocks=(1, -1)),
    "admit twice": Misuse(
        Reason.DUPLICATE_REQUEST, lambda pool: pool.admit(replace(VALID, handle=RUNNING))
    ),
    "grow a stranger": Misuse(Reason.UNKNOWN_REQUEST, lambda pool: pool.grow(STRANGER, [1, 0, 0])),
    "grow too few groups": Misuse(Reason.INVALID_ARGUMENT, lambda pool: pool.grow(RUNNING, [1])),
    "grow backwards": Misuse(Reason.INVALID_ARGUMENT, lambda pool: pool.grow(RUNNING, [1, -1, 0])),
    "take for a stranger": Misuse(Reason.UNKNOWN_REQUEST, lambda pool: pool.take(STRANGER, G0, 1)),
    "take from no group": Misuse(
        Reason.UNKNOWN_GROUP, lambda pool: pool.take(RUNNING, GroupId(3), 1)
    ),
    "take from a negative group": Misuse(
        Reason.UNKNOWN_GROUP, lambda pool: pool.take(RUNNING, GroupId(-1), 1)
    ),
    "take more than was granted": Misuse(
        Reason.NOT_GRANTED, lambda pool: pool.take(RUNNING, G0, 2)
    ),
    "take less than nothing": Misuse(Reason.NOT_GRANTED, lambda pool: pool.take(RUNNING, G0, -1)),
    "settle a stranger": Misuse(Reason.UNKNOWN_REQUEST, lambda pool: pool.settle(STRANGER)),
    "free a stranger": Misuse(Reason.UNKNOWN_REQUEST, lambda pool: pool.free(STRANGER)),
    "drop for a stranger": Misuse(
        Reason.UNKNOWN_REQUEST, lambda pool: pool.drop(STRANGER, G0, held(pool, RUNNING, 0))
    ),
    "drop from no group": Misuse(
        Reason.UNKNOWN_GROUP, lambda pool: pool.drop(RUNNING, GroupId(3), BlockId(1))
    ),
    "drop a block of another request": Misuse(
        Reason.NOT_HELD, lambda pool: pool.drop(RUNNING, G0, held(pool, SHARING, 0))
    ),
    "drop a block of another group": Misuse(
        Reason.NOT_HELD, lambda pool: pool.drop(RUNNING, G1, held(pool, RUNNING, 2))
    ),
    "drop a granted block": Misuse(
        Reason.NOT_HELD, lambda pool: pool.drop(RUNNING, G0, granted(pool, 0))
    ),
    "drop the null block": Misuse(Reason.NOT_HELD, lambda pool: pool.drop(RUNNING, G0, BlockId(0))),
    "forget in no group": Misuse(
        Reason.UNKNOWN_GROUP, lambda pool: pool.forget(GroupId(3), [BlockId(1)])
    ),
    "forget the null block": Misuse(
        Reason.UNKNOWN_BLOCK, lambda pool: pool.forget(G0, [cached(pool), BlockId(0)])
    ),
    "forget a block that is not there": Misuse(
        Reason.UNKNOWN_BLOCK, lambda pool: pool.forget(G0, [cached(pool), BlockId(63)])
    ),
    "commit for a stranger": Misuse(
        Reason.UNKNOWN_REQUEST,
        lambda pool: pool.commit(STRANGER, ATTENTION, NAME, (held(pool, SHARING, 0),)),
    ),
    "commit to no kind": commit(Reason.UNKNOWN_GROUP, lambda pool: held(pool, SHARING, 0), kind=2),
    "commit half a row": commit(Reason.UNKNOWN_GROUP, lambda pool: held(pool, SHARING, 1), kind=1),
    "commit one block twice": commit(
        Reason.NOT_HELD,
        lambda pool: held(pool, SHARING, 1),
        lambda pool: held(pool, SHARING, 1),
        kind=1,
    ),
    "commit the null block": commit(Reason.UNKNOWN_BLOCK, lambda _: BlockId(0)),
    "commit a block that is not there": commit(Reason.UNKNOWN_BLOCK, lambda _: BlockId(63)),
    "commit a shared block": commit(Reason.NOT_SOLE_OWNER, lambda pool: held(pool, SHARING, 0, 0)),
    "commit a free block": commit(Reason.NOT_HELD, lambda _: BlockId(62)),
    "commit a cached block": commit(Reason.NOT_HELD, cached),
    "commit a granted block": commit(Reason.NOT_HELD, lambda pool: granted(pool, 0)),
    "commit again": Misuse(
        Reason.ALREADY_COMMITTED,
        lambda pool: pool.commit(ALONE, ATTENTION, NAME, (held(pool, ALONE, 0),)),
    ),
}

#: Calls by a request for blocks that are somebody else's, or nobody's to give a name to.
THEFTS: dict[str, Misuse] = {
    "commit a block of another request": Misuse(
        Reason.NOT_HELD,
        lambda pool: pool.commit(RUNNING, ATTENTION, NAME, (held(pool, SHARING, 0),)),
    ),
    "commit the blocks of two groups the wrong way round": Misuse(
        Reason.NOT_HELD,
        lambda pool: pool.commit(
            SHARING, STATES, NAME, (held(pool, SHARING, 2), held(pool, SHARING, 1))
        ),
    ),
    "commit the memory of a null block": Misuse(
        Reason.NOT_HELD, lambda pool: pool.commit(SHARING, ATTENTION, NAME, (BlockId(1),))
    ),
}
