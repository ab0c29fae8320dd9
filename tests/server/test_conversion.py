"""The wire says what the core means, and nothing of it is left out."""

import json
from dataclasses import replace

import pytest

from kvquarry.v1alpha import admin_pb2, plan_pb2, pool_pb2
from kvquarry_core.errors import PlanError, Reason, UsageError
from kvquarry_core.messages import (
    AdmitRequest,
    AheadRequest,
    GrowRequest,
    LeaseRequest,
    Pinned,
    PinRefusal,
    PinRefusalCause,
    PinRequest,
    Refusal,
    RefusalCause,
)
from kvquarry_core.plan import GroupKind
from kvquarry_core.usage import PoolUsage
from kvquarry_core.work import Work
from kvquarry_server.conversion.batches import batch_from_wire
from kvquarry_server.conversion.lives import (
    batches_of,
    hello_from_wire,
    open_request_from_wire,
)
from kvquarry_server.conversion.outcomes import outcome_to_wire
from kvquarry_server.conversion.plans import group_from_wire, plan_to_wire
from kvquarry_server.conversion.statuses import plain, status_to_wire
from kvquarry_server.operations import (
    BeginStep,
    Commit,
    CompareBooks,
    Drop,
    Forget,
    Free,
    GiveBack,
    ResetCache,
    Settle,
    Take,
    Unpin,
    Unreadable,
)
from kvquarry_server.outcomes import Answer, BatchOutcome, CacheReset
from kvquarry_server.registry import Policy, Registry
from kvquarry_server.status import Boot, status_of
from tests.server.doubles import GROUPS, FakeClock, open_request, ready_attachment, small_plan

WIRE = pool_pb2.Operation
OPERATIONS = [
    (
        WIRE(
            admit=pool_pb2.Admit(
                handle=1,
                hashes=[b"a", b"b"],
                token_count=2,
                max_hit_tokens=3,
                max_grant_tokens=4,
                lookahead_tokens=5,
                must_fit_tokens=6,
                keep_free_block_counts=[7, 8],
                states_are_leased=True,
                in_flight_tokens=9,
                encoder_tokens=10,
                priority=2,
            )
        ),
        AdmitRequest(1, [b"a", b"b"], 2, 3, 4, 5, 6, [7, 8], True, 9, 10, 2),  # type: ignore[arg-type, list-item]  # noqa: FBT003
    ),
    (WIRE(grow=pool_pb2.Grow(handle=1, block_counts=[2, 3])), GrowRequest(1, [2, 3])),  # type: ignore[arg-type]
    (WIRE(lease=pool_pb2.Lease(block_counts=[2, 3])), LeaseRequest([2, 3])),
    (
        WIRE(grant_ahead=pool_pb2.GrantAhead(handles=[1, 2], block_counts=[3, 4])),
        AheadRequest([1, 2], [3, 4]),  # type: ignore[list-item]
    ),
    (
        WIRE(give_back=pool_pb2.GiveBack(groups=[1, 2], block_counts=[1, 1], blocks=[3, 4])),
        GiveBack([1, 2], [1, 1], [3, 4]),  # type: ignore[list-item]
    ),
    (
        WIRE(take=pool_pb2.Take(handles=[1, 2], groups=[3, 4], block_counts=[5, 6])),
        Take([1, 2], [3, 4], [5, 6]),  # type: ignore[list-item]
    ),
    (WIRE(settle=pool_pb2.Settle(handles=[1, 2])), Settle([1, 2])),  # type: ignore[list-item]
    (
        WIRE(
            commit=pool_pb2.Commit(
                handles=[1], kinds=[2], row_counts=[1], hashes=[b"c"], blocks=[3, 4], places=[0]
            )
        ),
        Commit([1], [2], [1], [b"c"], [3, 4], [0]),  # type: ignore[list-item]
    ),
    (
        WIRE(drop=pool_pb2.Drop(handles=[1], groups=[2], block_counts=[1], blocks=[3])),
        Drop([1], [2], [1], [3]),  # type: ignore[list-item]
    ),
    (WIRE(free=pool_pb2.Free(handles=[1])), Free([1])),  # type: ignore[list-item]
    (WIRE(begin_step=pool_pb2.BeginStep()), BeginStep()),
    (
        WIRE(compare_books=pool_pb2.CompareBooks(revision=7, digest=b"books")),
        CompareBooks(7, b"books"),
    ),
    (WIRE(forget=pool_pb2.Forget(group=1, blocks=[2])), Forget(1, [2])),  # type: ignore[arg-type, list-item]
    (
        WIRE(pin=pool_pb2.Pin(pin_id="p", hashes=[b"a"], ttl_seconds=1.5)),
        PinRequest("p", [b"a"], 1.5),  # type: ignore[list-item]
    ),
    (WIRE(unpin=pool_pb2.Unpin(pin_ids=["p", "q"])), Unpin(["p", "q"])),
    (WIRE(reset_cache=pool_pb2.ResetCache()), ResetCache()),
    (WIRE(), Unreadable()),
]


@pytest.mark.parametrize(("wire", "ours"), OPERATIONS, ids=lambda one: type(one).__name__)
def test_an_operation_is_read_field_by_field(wire: pool_pb2.Operation, ours: object) -> None:
    batch = batch_from_wire(pool_pb2.Batch(number=7, operations=[wire]))
    assert (batch.number, list(batch.operations)) == (7, [ours])


def test_a_quiet_batch_is_read_as_one() -> None:
    assert batch_from_wire(pool_pb2.Batch(number=1, quiet=True)).is_quiet
    assert not batch_from_wire(pool_pb2.Batch(number=1)).is_quiet


def test_what_a_batch_says_of_empty_slots_is_read() -> None:
    assert not batch_from_wire(pool_pb2.Batch(number=1)).empty_slots
    told = pool_pb2.Batch(number=1, empty_slot_counts=[3, 0])
    assert list(batch_from_wire(told).empty_slots) == [3, 0]


def test_every_operation_of_the_wire_is_read() -> None:
    (oneof,) = pool_pb2.Operation.DESCRIPTOR.oneofs
    read = {wire.WhichOneof("operation") for wire, _ in OPERATIONS}
    assert {field.name for field in oneof.fields} == read - {None}


def test_every_kind_of_group_crosses_the_wire_and_back() -> None:
    plan = small_plan()
    assert tuple(group_from_wire(group) for group in plan_to_wire(plan).groups) == GROUPS
    assert len(plan_pb2.GroupKind.keys()) == 1 + len(GroupKind)


def test_a_kind_of_group_that_nobody_knows_is_refused() -> None:
    for number in (0, 77):
        with pytest.raises(PlanError, match="FULL_ATTENTION"):
            group_from_wire(plan_pb2.GroupSpec(kind=number))  # type: ignore[arg-type]


def test_a_plan_is_told_in_full() -> None:
    plan, wire = small_plan(), plan_to_wire(small_plan())
    assert [
        (c.page_bytes, c.stride_bytes, c.blocks_per_slab, c.block_count, c.usable_block_count)
        for c in wire.size_classes
    ] == [
        (c.page_bytes, c.stride_bytes, c.blocks_per_slab, c.num_blocks, c.num_usable_blocks)
        for c in plan.classes
    ]
    assert list(wire.class_of_group) == list(plan.class_of_group)
    assert (wire.region_count, wire.slab_size_bytes, wire.slab_count, wire.pool_size_bytes) == (
        plan.num_regions,
        plan.slab_bytes,
        plan.num_slabs,
        plan.pool_bytes,
    )


def outcome(*answers: Answer) -> BatchOutcome:
    return BatchOutcome(1, 2, answers, None, (), PoolUsage((), 0, 0, 0))


@pytest.mark.parametrize("cause", RefusalCause)
def test_every_cause_of_a_refusal_has_its_name(cause: RefusalCause) -> None:
    wire = outcome_to_wire("boot", outcome(Refusal(cause, 1, 2, (3,), (4,))))
    refusal = wire.result.answers[0].refusal
    assert pool_pb2.RefusalCause.Name(refusal.cause) == f"REFUSAL_CAUSE_{cause.name}"
    assert (refusal.hit_tokens, refusal.longest_tokens) == (1, 2)
    assert (list(refusal.wanted_block_counts), list(refusal.available_block_counts)) == ([3], [4])


def test_more_blocks_than_the_wire_can_count_are_told_as_the_most() -> None:
    wire = outcome_to_wire("b", outcome(Refusal(RefusalCause.NEVER_FITS, wanted_blocks=(1 << 40,))))
    assert list(wire.result.answers[0].refusal.wanted_block_counts) == [(1 << 32) - 1]


@pytest.mark.parametrize("cause", PinRefusalCause)
def test_every_cause_of_a_refused_pin_has_its_name(cause: PinRefusalCause) -> None:
    wire = outcome_to_wire("boot", outcome(PinRefusal(cause, 1, 2, 3)))
    refusal = wire.result.answers[0].pin_refusal
    assert pool_pb2.PinRefusalCause.Name(refusal.cause) == f"PIN_REFUSAL_CAUSE_{cause.name}"
    told = (refusal.wanted_size_bytes, refusal.pinned_size_bytes, refusal.cap_size_bytes)
    assert told == (1, 2, 3)


def test_a_pin_tells_what_it_holds_and_how_full_the_cap_is() -> None:
    pinned = outcome_to_wire("boot", outcome(Pinned(1, 2, 3))).result.answers[0].pinned
    assert (pinned.token_count, pinned.pinned_size_bytes, pinned.cap_size_bytes) == (1, 2, 3)


@pytest.mark.parametrize("is_done", [True, False])
def test_a_reset_says_whether_it_was_done(is_done: bool) -> None:  # noqa: FBT001
    wire = outcome_to_wire("boot", outcome(CacheReset(is_done)))
    assert wire.result.answers[0].reset_cache.done is is_done


def test_a_stream_begins_with_a_hello_and_goes_on_with_batches() -> None:
    hello = pool_pb2.AttachRequest(hello=pool_pb2.Hello(pool_id="p", incarnation=3))
    batch = pool_pb2.AttachRequest(batch=pool_pb2.Batch(number=1))
    assert hello_from_wire(hello).incarnation == 3
    assert [one.number for one in batches_of(batch)] == [1]
    batch.following.add(number=2)
    batch.following.add(number=3)
    assert [one.number for one in batches_of(batch)] == [1, 2, 3]
    for wrong in (batch, pool_pb2.AttachRequest()):
        with pytest.raises(UsageError):
            hello_from_wire(wrong)
    for wrong in (hello, pool_pb2.AttachRequest()):
        with pytest.raises(UsageError):
            batches_of(wrong)


def test_a_status_in_plain_values_keeps_numbers_names_and_defaults() -> None:
    registry = Registry(Policy(), FakeClock())
    ready_attachment(registry)
    status = plain(status_to_wire(status_of(Boot("boot", "1.0", 990.0), registry)))
    read = json.loads(json.dumps(status))
    assert read == status
    assert set(status) == set(admin_pb2.GetStatusResponse.DESCRIPTOR.fields_by_name)
    (pool,) = read["pools"]
    assert pool["revision"] == 0
    assert pool["plan"]["groups"][2]["kind"] == "GROUP_KIND_RECURRENT_STATE"
    assert pool["workers"][0]["digest"] == b"digest".hex()
    assert pool["attachments"][0]["attached"] is False
    assert status["uptime_seconds"] == 10.0


def test_a_batch_of_very_many_operations_is_refused_unread() -> None:
    one = pool_pb2.Operation(begin_step=pool_pb2.BeginStep())
    with pytest.raises(UsageError, match="at most 65536 operations"):
        batch_from_wire(pool_pb2.Batch(number=1, operations=[one] * 65_537))


MANY = 65_537
LONG_COLUMNS = [
    WIRE(grant_ahead=pool_pb2.GrantAhead(handles=[1] * MANY)),
    WIRE(give_back=pool_pb2.GiveBack(blocks=[1] * MANY)),
    WIRE(take=pool_pb2.Take(block_counts=[1] * MANY)),
    WIRE(settle=pool_pb2.Settle(handles=[1] * MANY)),
    WIRE(commit=pool_pb2.Commit(hashes=[b"c"] * MANY)),
    WIRE(drop=pool_pb2.Drop(groups=[1] * MANY)),
    WIRE(free=pool_pb2.Free(handles=[1] * MANY)),
    WIRE(forget=pool_pb2.Forget(blocks=[1] * MANY)),
]


@pytest.mark.parametrize("long", LONG_COLUMNS, ids=lambda one: one.WhichOneof("operation"))
def test_an_operation_with_too_many_rows_is_a_mistake_like_others(
    long: pool_pb2.Operation,
) -> None:
    attachment = ready_attachment()
    step = pool_pb2.Operation(begin_step=pool_pb2.BeginStep())
    outcome = attachment.apply(batch_from_wire(pool_pb2.Batch(number=1, operations=[step, long])))
    assert outcome.error is not None
    assert outcome.error.reason is Reason.INVALID_ARGUMENT
    assert "at most 65536 rows" in outcome.error.message
    assert outcome.error.metadata == {"operation_index": "1"}
    assert (outcome.revision, attachment.last_batch_number) == (1, 1)


def test_the_work_of_a_model_is_read_where_it_is_told() -> None:
    told = pool_pb2.OpenPoolRequest(work=pool_pb2.Work(token_flops=8.0, token_pair_flops=0.5))
    assert open_request_from_wire(told).work == Work(8.0, 0.5)
    assert open_request_from_wire(pool_pb2.OpenPoolRequest()).work is None


@pytest.mark.parametrize(("work", "shown"), [(Work(6e9, 164e3), [6e9, 164e3]), (None, [0, 0])])
def test_the_status_shows_what_a_model_computes(work: Work | None, shown: list[float]) -> None:
    registry = Registry(Policy(), FakeClock())
    registry.open(replace(open_request(), work=work))
    wire = status_to_wire(status_of(Boot("b00t", "1.0", 0.0), registry))
    assert list(plain(wire.pools[0].work).values()) == shown
