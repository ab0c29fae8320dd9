"""The runs of a commit, with their names: said in it, or remembered since the admission."""

import operator
from collections.abc import Sequence

from kvquarry_core import checks
from kvquarry_core.errors import Reason, UsageError
from kvquarry_core.ids import BlockHash, Handle, KindId
from kvquarry_core.messages import FullRows
from kvquarry_core.names import places_of
from kvquarry_core.pool import Pool
from kvquarry_server import limits
from kvquarry_server.columns import check_columns, runs_of
from kvquarry_server.operations import Commit


def full_rows(pool: Pool, commit: Commit) -> list[FullRows]:
    """The runs of a commit, of kinds that exist; whether they may be committed is not asked."""
    places = commit.places or [0] * len(commit.handles)
    check_columns(commit.handles, commit.kinds, commit.num_rows, places)
    for kind in commit.kinds:
        checks.check_kind(pool.plan, kind)
    widths = [len(pool.plan.kinds[kind]) for kind in commit.kinds]
    blocks = runs_of(commit.blocks, list(map(operator.mul, commit.num_rows, widths)))
    return list(map(FullRows, commit.handles, commit.kinds, _names(pool, commit, places), blocks))


def _names(pool: Pool, commit: Commit, places: Sequence[int]) -> list[Sequence[BlockHash]]:
    """What names the rows of each run: remembered since the admission, or said now."""
    num_said = [0 if at else rows for at, rows in zip(places, commit.num_rows, strict=True)]
    said = runs_of(commit.hashes, num_said)
    runs = zip(commit.handles, commit.kinds, commit.num_rows, places, said, strict=True)
    names = [
        _remembered(pool, handle, kind, place - 1, num_rows) if place else hashes
        for handle, kind, num_rows, place, hashes in runs
    ]
    for one in names:
        limits.check_hashes(one)
    return names


def _remembered(
    pool: Pool, handle: Handle, kind: KindId, place: int, num_rows: int
) -> Sequence[BlockHash]:
    names = pool.requests.record(handle).names.at(places_of(pool.plan, kind, place, num_rows))
    if len(names) != num_rows:
        raise UsageError(
            Reason.INVALID_ARGUMENT,
            f"request {handle} was not admitted with {num_rows} hashes from {place} on that are "
            "remembered; send them",
        )
    return names
