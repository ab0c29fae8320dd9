"""Operations share columns as far as that comes to the same."""

from collections.abc import Iterator
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from kvquarry.v1alpha import pool_pb2
from kvquarry_client.wire.batches import BatchBuilder
from kvquarry_client.wire.bearing import Manners
from kvquarry_core.ids import BlockHash, BlockId, GroupId, Handle, KindId
from kvquarry_core.messages import FullRows

SORTS = ("take", "commit", "drop", "free", "settle", "begin_step")
GROUP = GroupId(0)


def call(builder: BatchBuilder, sort: str, number: int) -> None:
    """One operation, named by its number; a step's start has no name."""
    handle = Handle(number)
    match sort:
        case "take":
            builder.take(handle, GROUP, 1)
        case "commit":
            builder.commit(FullRows(handle, KindId(0), [BlockHash(b"x")], [BlockId(1)]))
        case "drop":
            builder.drop(handle, GROUP, [BlockId(1)])
        case "free":
            builder.free(handle)
        case "settle":
            builder.settle(handle)
        case "begin_step":
            builder.begin_step()


def told(batch: pool_pb2.Batch) -> Iterator[tuple[str, int]]:
    """What the service does, in its order."""
    for operation in batch.operations:
        sort = operation.WhichOneof("operation")
        assert sort is not None
        if sort != "begin_step":
            yield from ((sort, handle) for handle in getattr(operation, sort).handles)


@given(st.lists(st.sampled_from(SORTS), max_size=24))
def test_only_a_take_may_overtake_and_only_commits(sorts: list[str]) -> None:
    builder = BatchBuilder(Manners())
    for number, sort in enumerate(sorts):
        call(builder, sort, number)
    order = list(told(builder.finish().message.batch))
    assert sorted(number for _, number in order) == [
        number for number, sort in enumerate(sorts) if sort != "begin_step"
    ]
    for place, (sort, number) in enumerate(order):
        for later_sort, later_number in order[place + 1 :]:
            if later_number < number:
                assert (sort, later_sort) == ("take", "commit")
                assert "begin_step" not in sorts[later_number:number]


def test_a_step_of_many_requests_is_two_operations() -> None:
    builder = BatchBuilder(Manners())
    for number in range(0, 32, 2):
        call(builder, "take", number)
        call(builder, "commit", number + 1)
    assert [sort for sort, _ in told(builder.finish().message.batch)] == (
        ["take"] * 16 + ["commit"] * 16
    )
    assert len(builder) == 0


def test_columns_stay_within_what_the_service_takes() -> None:
    """Long prompts of many requests in one step, twelve groups of a kind."""
    builder = BatchBuilder(Manners())
    num_rows, num_members = 512, 12
    names, blocks = [BlockHash(b"x")] * num_rows, [BlockId(1)] * num_rows * num_members
    for number in range(16):
        call(builder, "take", number)
        builder.commit(FullRows(Handle(number), KindId(0), names, blocks))
    operations = builder.finish().message.batch.operations
    sizes = [len(one.commit.blocks) for one in operations if one.HasField("commit")]
    assert sum(sizes) == 16 * len(blocks)
    assert max(sizes) <= 65_536


def test_what_is_committed_was_taken_before() -> None:
    """A commit of blocks taken before, a take, and the commit of what was taken."""
    builder = BatchBuilder(Manners())
    for number, sort in enumerate(("commit", "take", "commit", "take", "commit")):
        call(builder, sort, number)
    assert list(told(builder.finish().message.batch)) == [
        ("commit", 0),
        ("take", 1),
        ("take", 3),
        ("commit", 2),
        ("commit", 4),
    ]


def test_names_that_the_service_remembers_are_not_sent_again() -> None:
    builder = BatchBuilder(Manners())
    rows = FullRows(Handle(1), KindId(0), [BlockHash(b"x")], [BlockId(1)])
    builder.commit(rows)
    builder.commit(replace(rows, handle=Handle(2), first=0, is_remembered=True))
    [operation] = builder.finish().message.batch.operations
    assert list(operation.commit.hashes) == [b"x"]
    assert list(operation.commit.places) == [0, 1]
    assert list(operation.commit.row_counts) == [1, 1]
