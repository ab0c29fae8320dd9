"""One operation applied to a pool: all of it, or, when any row of it is a mistake, nothing.

The core's calls are atomic one by one. An operation with columns is many of them, so all its rows
are checked, against the pool and against each other, before the first is applied.
"""

from collections.abc import Iterable
from typing import assert_never

from kvquarry_core import checks
from kvquarry_core.books import digest_of_pool
from kvquarry_core.errors import Reason, UsageError
from kvquarry_core.ids import BlockId, GroupId, Handle
from kvquarry_core.messages import (
    Admission,
    AdmitRequest,
    AheadRequest,
    Ask,
    GrowRequest,
    LeaseRequest,
    PinRequest,
)
from kvquarry_core.names import RememberedNames, remembered
from kvquarry_core.pool import Pool
from kvquarry_server.columns import check_columns, runs_of
from kvquarry_server.full_rows import full_rows
from kvquarry_server.operations import (
    BeginStep,
    Commit,
    CompareBooks,
    Drop,
    Forget,
    Free,
    GiveBack,
    Operation,
    ResetCache,
    Settle,
    Take,
    Unpin,
    Unreadable,
)
from kvquarry_server.outcomes import Answer, CacheReset

#: What has columns of any length.
Columnar = AheadRequest | Take | Settle | GiveBack | Drop | Free | Forget
_Unanswered = Take | Settle | GiveBack | Commit | Drop | Free | BeginStep | Forget | Unreadable


def apply_operation(pool: Pool, operation: Operation) -> Answer | None:
    """Apply an operation and return its answer, if it is one that has an answer.

    Raises:
        UsageError: The operation is a mistake; the pool is unchanged.
    """
    match operation:
        case AdmitRequest():
            return _admit(pool, operation)
        case AheadRequest() | GrowRequest() | LeaseRequest() | PinRequest():
            return _answer(pool, operation)
        case ResetCache():
            return CacheReset(pool.reset_cache())
        case CompareBooks():
            _compare(pool, operation)
            return None
        case Unpin():
            for pin_id in operation.pin_ids:
                pool.unpin(pin_id)
            return None
        case _:
            _apply_unanswered(pool, operation)
            return None


def check_operation(pool: Pool, operation: Columnar) -> None:
    """Raise what :func:`apply_operation` would raise, and change nothing.

    Raises:
        UsageError: The operation is a mistake.
    """
    match operation:
        case AheadRequest():
            _check_ahead(pool, operation)
        case Take():
            _check_take(pool, operation)
        case Drop():
            _dropped_runs(pool, operation)
        case GiveBack():
            _returned_runs(pool, operation)
        case Settle():
            _check_known(pool, operation.handles)
        case Free():
            _check_freed(pool, operation)
        case Forget():
            checks.check_blocks(pool.plan, operation.group, operation.blocks)
        case _:
            assert_never(operation)


def _answer(pool: Pool, ask: Ask) -> Answer:
    if isinstance(ask, AheadRequest):
        _check_ahead(pool, ask)
    return pool.answer(ask)


def _admit(pool: Pool, admit: AdmitRequest) -> Answer:
    answer = pool.answer(admit)
    if isinstance(answer, Admission):
        record = pool.requests.record(admit.handle)
        record.names = RememberedNames.of(remembered(pool.plan, answer), admit.hashes)
    return answer


def _apply_unanswered(pool: Pool, operation: _Unanswered) -> None:
    match operation:
        case Take():
            _take(pool, operation)
        case Commit():
            _commit(pool, operation)
        case Drop():
            _drop(pool, operation)
        case GiveBack():
            _give_back(pool, operation)
        case Settle():
            _settle(pool, operation)
        case Free():
            _free(pool, operation)
        case BeginStep():
            pool.begin_step()
        case Forget():
            pool.forget(operation.group, operation.blocks)
        case Unreadable():
            raise UsageError(
                Reason.INVALID_ARGUMENT,
                "an operation is empty or newer than this service; use a client of its version",
            )
        case _:
            assert_never(operation)


def _check_ahead(pool: Pool, ahead: AheadRequest) -> None:
    # A million grants to one request are no more than one, and hold up everybody else.
    if len(set(ahead.handles)) != len(ahead.handles):
        raise UsageError(Reason.INVALID_ARGUMENT, "a request is granted ahead twice")
    _check_known(pool, ahead.handles)
    checks.check_ahead(ahead)


def _take(pool: Pool, take: Take) -> None:
    _check_take(pool, take)
    for handle, group, num_blocks in zip(take.handles, take.groups, take.num_blocks, strict=True):
        pool.take(handle, group, num_blocks)


def _check_take(pool: Pool, take: Take) -> None:
    check_columns(take.handles, take.groups, take.num_blocks)
    wanted: dict[tuple[Handle, GroupId], int] = {}
    for handle, group, num_blocks in zip(take.handles, take.groups, take.num_blocks, strict=True):
        wanted[handle, group] = wanted.get((handle, group), 0) + num_blocks
    for (handle, group), num_blocks in wanted.items():
        granted = pool.requests.record(handle).granted
        checks.check_group(pool.plan, group)
        checks.check_granted(handle, group, len(granted[group]), num_blocks)


def _settle(pool: Pool, settle: Settle) -> None:
    _check_known(pool, settle.handles)
    for handle in dict.fromkeys(settle.handles):
        pool.settle(handle)


def _give_back(pool: Pool, give_back: GiveBack) -> None:
    for group, blocks in _returned_runs(pool, give_back):
        pool.give_back(group, blocks)


def _returned_runs(pool: Pool, give_back: GiveBack) -> list[tuple[GroupId, list[BlockId]]]:
    """What is given back, checked."""
    check_columns(give_back.groups, give_back.num_blocks)
    runs = list(zip(give_back.groups, runs_of(give_back.blocks, give_back.num_blocks), strict=True))
    returned: dict[GroupId, list[BlockId]] = {}
    for group, blocks in runs:
        returned.setdefault(group, []).extend(blocks)
    for group, blocks in returned.items():
        checks.check_blocks(pool.plan, group, blocks)
        pool.lease.check(group, blocks)
    return runs


def _commit(pool: Pool, commit: Commit) -> None:
    pool.commit_rows(full_rows(pool, commit))


def _drop(pool: Pool, drop: Drop) -> None:
    for handle, group, blocks in _dropped_runs(pool, drop):
        pool.drop_blocks(handle, group, blocks)


def _dropped_runs(pool: Pool, drop: Drop) -> list[tuple[Handle, GroupId, list[BlockId]]]:
    """What is dropped, checked."""
    check_columns(drop.handles, drop.groups, drop.num_blocks)
    runs = list(zip(drop.handles, drop.groups, runs_of(drop.blocks, drop.num_blocks), strict=True))
    dropped: dict[tuple[Handle, GroupId], list[BlockId]] = {}
    for handle, group, blocks in runs:
        dropped.setdefault((handle, group), []).extend(blocks)
    for (handle, group), blocks in dropped.items():
        record = pool.requests.record(handle)
        checks.check_group(pool.plan, group)
        missing = record.missing(group, blocks)
        if missing is not None:
            raise UsageError(
                Reason.NOT_HELD, f"request {handle} does not hold block {missing} in group {group}"
            )
    return runs


def _free(pool: Pool, free: Free) -> None:
    _check_freed(pool, free)
    for handle in free.handles:
        pool.free(handle)


def _check_freed(pool: Pool, free: Free) -> None:
    if len(set(free.handles)) != len(free.handles):
        raise UsageError(Reason.UNKNOWN_REQUEST, "a request is freed twice")
    _check_known(pool, free.handles)


def _compare(pool: Pool, books: CompareBooks) -> None:
    if digest_of_pool(pool) != books.digest:
        raise UsageError(
            Reason.BOOKS_DIFFER,
            "client and pool do not agree on who holds what: one of them has a bug",
        )


def _check_known(pool: Pool, handles: Iterable[Handle]) -> None:
    for handle in handles:
        pool.requests.record(handle)
