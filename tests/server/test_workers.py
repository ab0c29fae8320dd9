"""No block is handed out unless every worker's memory is what the plan says."""

from dataclasses import replace

import pytest

from kvquarry_core.errors import Reason, UsageError
from kvquarry_core.ids import GroupId
from kvquarry_core.worker_layout import Arrangement, planned_views
from kvquarry_server.faults import WorkerMismatch
from kvquarry_server.workers import Roster, Worker
from tests.server.doubles import small_plan, worker

PLAN = small_plan()


@pytest.fixture
def roster() -> Roster:
    return Roster(PLAN, num_workers=2)


def with_layer(index: int, **changes: object) -> Worker:
    """Rank 0 with one of its layers changed."""
    good = worker(PLAN, 0, 2)
    layers = list(good.layers)
    layers[index] = replace(layers[index], **changes)  # type: ignore[arg-type]
    return replace(good, layers=tuple(layers))


def test_the_roster_is_complete_once_all_ranks_agree(roster: Roster) -> None:
    with pytest.raises(UsageError, match="ranks 0, 1") as refusal:
        roster.check_complete()
    assert refusal.value.reason is Reason.WORKERS_NOT_REGISTERED
    roster.register(worker(PLAN, 1, 2))
    assert not roster.is_complete
    roster.register(worker(PLAN, 0, 2))
    roster.check_complete()
    assert [one.rank for one in roster.workers] == [0, 1]


def test_saying_the_same_again_is_harmless(roster: Roster) -> None:
    roster.register(worker(PLAN, 0, 2))
    roster.register(worker(PLAN, 0, 2))
    assert len(roster.workers) == 1


@pytest.mark.parametrize(
    "change", [{"device": "cuda:7"}, {"buffer_bytes": 1 << 40}, {"digest": b"other"}]
)
def test_saying_something_else_for_the_same_rank_is_refused(
    roster: Roster, change: dict[str, object]
) -> None:
    first = worker(PLAN, 0, 2)
    roster.register(first)
    with pytest.raises(WorkerMismatch, match="rank 0 registered other memory before"):
        roster.register(replace(first, **change))  # type: ignore[arg-type]
    assert roster.workers == [first]


@pytest.mark.parametrize(
    "changed",
    [
        replace(worker(PLAN, 1, 2), digest=b"other"),
        replace(worker(PLAN, 1, 2), layers=worker(PLAN, 1, 2).layers[1:]),
    ],
    ids=["digest", "layers"],
)
def test_ranks_that_differ_are_both_named(roster: Roster, changed: Worker) -> None:
    roster.register(worker(PLAN, 0, 2))
    with pytest.raises(WorkerMismatch, match="ranks 0 and 1 built different tensors"):
        roster.register(changed)
    assert not roster.is_complete


@pytest.mark.parametrize(("rank", "num_workers"), [(0, 1), (0, 3), (2, 2)])
def test_ranks_that_the_engine_does_not_have_are_refused(
    roster: Roster, rank: int, num_workers: int
) -> None:
    with pytest.raises(WorkerMismatch):
        roster.register(worker(PLAN, rank, num_workers))


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        (replace(worker(PLAN, 0, 2), buffer_bytes=PLAN.pool_bytes - 1), "the plan needs"),
        (replace(worker(PLAN, 0, 2), layers=()), "lists no layer"),
        (with_layer(0, group=GroupId(3)), "groups run from 0 to 2"),
        (with_layer(0, stride_bytes=63), "63"),
        (with_layer(0, num_blocks=47), "47"),
        (with_layer(1, offset_bytes=PLAN.region_bytes + 1), "begins at byte"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_tensors_that_contradict_the_plan_are_refused(
    roster: Roster, changed: Worker, told: str
) -> None:
    """C21: before a block is handed out, the workers' layout is the plan's."""
    with pytest.raises(UsageError, match=told) as refusal:
        roster.register(changed)
    assert refusal.value.reason is Reason.LAYOUT_MISMATCH
    assert roster.workers == []


def test_both_arrangements_of_the_plan_are_accepted(roster: Roster) -> None:
    for rank in (0, 1):
        layers = tuple(planned_views(PLAN, Arrangement.BLOCK_OUTERMOST))
        roster.register(replace(worker(PLAN, rank, 2), layers=layers))
    assert roster.is_complete


def test_many_ranks_share_one_copy_of_their_layers(roster: Roster) -> None:
    for rank in range(2):
        roster.register(worker(PLAN, rank, 2))
    assert roster.workers[0].layers is roster.workers[1].layers


def test_a_worker_without_any_layer_of_a_group_is_refused(roster: Roster) -> None:
    good = worker(PLAN, 0, 2)
    layers = tuple(layer for layer in good.layers if layer.group != GroupId(2))
    with pytest.raises(UsageError, match="no layer of group 2") as refusal:
        roster.register(replace(good, layers=layers))
    assert refusal.value.reason is Reason.LAYOUT_MISMATCH
    assert roster.workers == []
