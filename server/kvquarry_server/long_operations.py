"""Long operations, applied part by part: all of one, or, when any row is a mistake, nothing.

An operation is checked as a whole before its first part. Between two parts other pools may be
worked on, but nobody may touch this one; so what was checked stays true.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import groupby
from operator import itemgetter
from typing import Any, Final

from kvquarry_core.commit_checks import check_no_block_twice, check_rows
from kvquarry_core.messages import AheadGrant, AheadRequest, FullRows, Grant
from kvquarry_core.pool import Pool
from kvquarry_server.application import apply_operation, check_operation
from kvquarry_server.full_rows import full_rows
from kvquarry_server.operations import (
    Commit,
    Drop,
    Forget,
    Free,
    GiveBack,
    Operation,
    ResetCache,
    Settle,
    Take,
)
from kvquarry_server.outcomes import Answer, CacheReset
from kvquarry_server.slices import Slices

_Parted = Take | Settle | GiveBack | Drop | Free | Forget

# Half a millisecond of work or so.
_MANY_ROWS: Final = 256
_MANY_RUNS: Final = 4
# A freed request may hold thousands of blocks.
_MANY_REQUESTS: Final = 8
# Granting ahead looks at the whole pool's memory for each row.
_MANY_GRANTS: Final = 32
# Dropping goes through all blocks of a request, however few of them are dropped.
_MANY_DROPS: Final = 4096


def is_long(operation: Operation) -> bool:
    """Whether others should have their turn before all of an operation is done."""
    measure = _IS_LONG.get(type(operation))
    return measure is not None and measure(operation)


def apply_in_slices(pool: Pool, operation: Operation) -> Slices[Answer | None]:
    """Apply a long operation, with interruptions; once begun it must be finished.

    Raises:
        UsageError: The operation is a mistake; the pool is unchanged.
    """
    match operation:
        case ResetCache():
            return (yield from _reset_cache(pool))
        case AheadRequest():
            return (yield from _grant_ahead(pool, operation))
        case Commit():
            yield from _commit(pool, operation)
            return None
        case Take() | Settle() | GiveBack() | Drop() | Free() | Forget():
            check_operation(pool, operation)
            for part in _parts(operation):
                yield
                apply_operation(pool, part)
            return None
        case _:
            return apply_operation(pool, operation)


def _reset_cache(pool: Pool) -> Slices[CacheReset]:
    if pool.is_in_use:
        return CacheReset(is_done=False)
    yield from pool.forget_all()
    return CacheReset(is_done=pool.reset_cache())


def _grant_ahead(pool: Pool, ahead: AheadRequest) -> Slices[AheadGrant]:
    check_operation(pool, ahead)
    grants: list[Grant] = []
    for rows in _cuts(0, len(ahead.handles), _MANY_GRANTS):
        part = pool.grant_ahead(AheadRequest(ahead.handles[rows], ahead.num_blocks[rows]))
        grants += part.grants
        yield
    return AheadGrant(tuple(grants))


def _commit(pool: Pool, commit: Commit) -> Slices[None]:
    """Each run may be looked for in a long request, so they are checked in parts, too."""
    runs = full_rows(pool, commit)
    for handle in commit.handles:
        pool.requests.record(handle)
    for number, run in enumerate(runs, start=1):
        check_rows(pool.store, pool.lease, pool.requests, [run])
        if number % _MANY_RUNS == 0:
            yield
    check_no_block_twice(pool.plan, runs)
    for run in runs:
        for part in _parts_of_run(run, len(pool.plan.kinds[run.kind])):
            yield
            pool.commit_rows([part])


def _parts(operation: _Parted) -> Iterator[Operation]:
    """Operations that come to the same, one after another."""
    match operation:
        case Take(handles, groups, num_blocks):
            for rows in _cuts(0, len(handles), _MANY_ROWS):
                yield Take(handles[rows], groups[rows], num_blocks[rows])
        case Settle(handles):
            yield from (Settle(handles[rows]) for rows in _cuts(0, len(handles), _MANY_ROWS))
        case Free(handles):
            yield from (Free(handles[rows]) for rows in _cuts(0, len(handles), _MANY_REQUESTS))
        case Forget(group, blocks):
            yield from (Forget(group, blocks[rows]) for rows in _cuts(0, len(blocks), _MANY_ROWS))
        case GiveBack():
            yield from _parts_of_give_back(operation)
        case Drop():
            yield from _parts_of_drop(operation)


def _parts_of_give_back(give_back: GiveBack) -> Iterator[GiveBack]:
    first = 0
    for group, num_blocks in zip(give_back.groups, give_back.num_blocks, strict=True):
        for rows in _cuts(first, num_blocks, _MANY_ROWS):
            blocks = give_back.blocks[rows]
            yield GiveBack([group], [len(blocks)], blocks)
        first += num_blocks


def _parts_of_drop(drop: Drop) -> Iterator[Drop]:
    """Neighbouring runs of one request together: its blocks are gone through for each part."""
    first = 0
    runs = zip(drop.handles, drop.groups, drop.num_blocks, strict=True)
    for (handle, group), together in groupby(runs, key=itemgetter(0, 1)):
        num_blocks = sum(length for *_, length in together)
        for rows in _cuts(first, num_blocks, _MANY_DROPS):
            blocks = drop.blocks[rows]
            yield Drop([handle], [group], [len(blocks)], blocks)
        first += num_blocks


def _parts_of_run(run: FullRows, width: int) -> Iterator[FullRows]:
    """Few rows of a run at a time, each of ``width`` blocks."""
    for rows in _cuts(0, len(run.hashes), _MANY_ROWS):
        blocks = run.blocks[rows.start * width : rows.stop * width]
        yield replace(run, hashes=run.hashes[rows], blocks=blocks)


def _cuts(first: int, length: int, most: int) -> Iterator[slice]:
    """A stretch of a column, cut into short ones."""
    end = first + length
    for start in range(first, end, most):
        yield slice(start, min(start + most, end))


# Operations that are not here take the same time whatever they hold, or cannot be cut.
_IS_LONG: Final[dict[type, Callable[[Any], bool]]] = {
    AheadRequest: lambda ahead: len(ahead.handles) > _MANY_GRANTS,
    Take: lambda take: len(take.handles) > _MANY_ROWS,
    Settle: lambda settle: len(settle.handles) > _MANY_ROWS,
    GiveBack: lambda give_back: len(give_back.blocks) > _MANY_ROWS,
    Commit: lambda commit: len(commit.blocks) > _MANY_ROWS,
    Drop: lambda drop: len(drop.blocks) > _MANY_ROWS,
    Free: lambda free: len(free.handles) > _MANY_REQUESTS,
    Forget: lambda forget: len(forget.blocks) > _MANY_ROWS,
    ResetCache: lambda _: True,
}
