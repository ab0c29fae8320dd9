"""Batches are applied in order, each exactly once, and a repetition gets the first answer."""

import pytest

from kvquarry_core.books import digest_of_pool
from kvquarry_core.errors import Reason
from kvquarry_core.ids import BlockHash, GroupId, Handle, KindId
from kvquarry_core.integrity import check_integrity
from kvquarry_core.messages import Admission, AdmitRequest, Grant, GrowRequest, Refusal
from kvquarry_server.attachment import Attachment
from kvquarry_server.faults import AnswerForgotten, OutOfOrder, ServiceReason
from kvquarry_server.limits import Limits
from kvquarry_server.operations import (
    Batch,
    BeginStep,
    Commit,
    CompareBooks,
    Free,
    Operation,
    ResetCache,
    Settle,
    Take,
)
from kvquarry_server.outcomes import BatchOutcome, CacheReset, Eviction
from kvquarry_server.registry import Policy, Registry
from tests.server.doubles import FakeClock, open_request, ready_attachment, worker
from tests.server.snapshot import snapshot

ONE, TWO = Handle(1), Handle(2)
ATTENTION, STATES = KindId(0), KindId(1)


def admit(handle: Handle, num_tokens: int = 8) -> AdmitRequest:
    return AdmitRequest(handle, (), num_tokens, 0, num_tokens)


def apply(attachment: Attachment, *operations: Operation) -> BatchOutcome:
    """Apply the next batch, and check the books."""
    outcome = attachment.apply(Batch(attachment.last_batch_number + 1, list(operations)))
    check_integrity(attachment.pool)
    return outcome


def test_answers_come_in_the_order_of_their_operations() -> None:
    attachment = ready_attachment()
    outcome = apply(attachment, admit(ONE), BeginStep(), GrowRequest(ONE, [1, 0, 0]), ResetCache())
    assert [type(answer) for answer in outcome.answers] == [Admission, Grant, CacheReset]
    assert outcome.error is None


def test_a_repeated_batch_returns_its_first_answer_and_changes_nothing() -> None:
    attachment = ready_attachment()
    first = apply(attachment, admit(ONE))
    apply(attachment, admit(TWO))
    before = snapshot(attachment.pool)
    assert attachment.apply(Batch(1, [Free([ONE, TWO])])) is first
    assert snapshot(attachment.pool) == before
    assert attachment.last_batch_number == 2


def test_a_skipped_number_is_refused_and_changes_nothing() -> None:
    attachment = ready_attachment()
    apply(attachment, admit(ONE))
    before = snapshot(attachment.pool)
    for number in (0, 3, 1 << 64):
        with pytest.raises(OutOfOrder):
            attachment.apply(Batch(number, [Free([ONE])]))
    assert snapshot(attachment.pool) == before
    assert attachment.last_batch_number == 1


def test_answers_of_the_last_128_batches_are_kept() -> None:
    attachment = ready_attachment()
    first_kept = [apply(attachment, BeginStep()) for _ in range(130)][2]
    assert attachment.apply(Batch(3, [])) is first_kept
    with pytest.raises(AnswerForgotten):
        attachment.apply(Batch(2, []))


def test_a_mistake_ends_its_batch_and_what_came_before_stays() -> None:
    attachment = ready_attachment()
    batch = Batch(1, [admit(ONE), Free([TWO]), Free([ONE])])
    outcome = attachment.apply(batch)
    assert outcome.error is not None
    assert outcome.error.reason is Reason.UNKNOWN_REQUEST
    assert outcome.error.metadata == {"operation_index": "1"}
    assert len(outcome.answers) == 1
    assert list(attachment.pool.requests) == [ONE]
    assert attachment.apply(batch) is outcome
    assert apply(attachment, Free([ONE])).error is None


def test_the_revision_counts_what_was_applied() -> None:
    attachment = ready_attachment()
    assert apply(attachment, admit(ONE), BeginStep()).revision == 2
    assert apply(attachment).revision == 2
    assert apply(attachment, BeginStep(), Free([TWO]), BeginStep()).revision == 3
    never_fits = AdmitRequest(TWO, (), 8, 0, 8, must_fit_tokens=4000)
    refused = apply(attachment, never_fits, GrowRequest(ONE, [4000, 0, 0]))
    assert all(isinstance(answer, Refusal) for answer in refused.answers)
    assert refused.revision == attachment.revision == 3


def test_books_are_compared_by_revision_and_digest() -> None:
    attachment = ready_attachment()
    apply(attachment, admit(ONE))
    digest = digest_of_pool(attachment.pool)
    assert apply(attachment, CompareBooks(1, digest)).error is None
    for books in (CompareBooks(1, digest), CompareBooks(2, b"other")):
        error = apply(attachment, books).error
        assert error is not None
        assert error.reason is Reason.BOOKS_DIFFER
    assert apply(attachment, CompareBooks(2, digest)).error is None


def test_no_block_is_handed_out_before_all_workers_have_registered() -> None:
    attachment = Registry(Policy(), FakeClock()).open(open_request(num_workers=2))
    plan = attachment.pool.plan
    attachment.roster.register(worker(plan, 0, 2))
    for operation in (admit(ONE), GrowRequest(ONE, [1, 0, 0])):
        outcome = apply(attachment, operation)
        assert outcome.error is not None
        assert outcome.error.reason is Reason.WORKERS_NOT_REGISTERED
        assert "ranks 1" in outcome.error.message
    assert apply(attachment, BeginStep(), ResetCache()).error is None
    attachment.roster.register(worker(plan, 1, 2))
    assert apply(attachment, admit(ONE)).error is None


def test_requests_are_bounded_in_number() -> None:
    policy = Policy(limits=Limits(num_requests=2))
    attachment = ready_attachment(Registry(policy, FakeClock()))
    outcome = apply(
        attachment, admit(ONE), Settle([ONE]), admit(TWO), Settle([TWO]), admit(Handle(3))
    )
    assert outcome.error is not None
    assert outcome.error.reason is ServiceReason.TOO_MANY_REQUESTS
    assert apply(attachment, Free([ONE]), admit(Handle(3))).error is None


def test_what_becomes_unfindable_flows_back_with_the_same_answer() -> None:
    attachment = ready_attachment()
    apply(attachment, admit(ONE), Take([ONE] * 3, [GroupId(0), GroupId(1), GroupId(2)], [2, 2, 1]))
    blocks = attachment.pool.requests[ONE].held
    a, b = BlockHash(b"a"), BlockHash(b"b")
    rows = [blocks[0][0], blocks[1][0], blocks[0][1], blocks[1][1], blocks[2][0]]
    apply(attachment, Commit([ONE] * 2, [ATTENTION, STATES], [2, 1], [a, b, b], rows), Free([ONE]))
    evicting = apply(attachment, admit(TWO, num_tokens=4 * 20))
    assert sorted(evicting.evictions, key=lambda eviction: eviction.kind) == [
        Eviction(ATTENTION, (b, a)),
        Eviction(STATES, (b,)),
    ]
    assert apply(attachment, Free([TWO])).evictions == ()


def with_three_evictions(attachment: Attachment) -> BatchOutcome:
    """Commit three rows and forget them again, in batches of which the last is quiet."""
    apply(attachment, admit(ONE, 12), Take([ONE] * 2, [GroupId(0), GroupId(1)], [3, 3]))
    blocks = attachment.pool.requests[ONE].held
    names = [BlockHash(b"a"), BlockHash(b"b"), BlockHash(b"c")]
    rows = [block for position in zip(blocks[0], blocks[1], strict=True) for block in position]
    apply(attachment, Commit([ONE], [ATTENTION], [3], names, rows), Free([ONE]))
    return attachment.apply(Batch(attachment.last_batch_number + 1, [ResetCache()], is_quiet=True))


def num_evicted(outcome: BatchOutcome) -> int:
    return sum(len(eviction.hashes) for eviction in outcome.evictions)


def test_more_evictions_than_fit_one_answer_are_told_with_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    attachment = ready_attachment()
    quiet = with_three_evictions(attachment)
    assert (quiet.usage, quiet.evictions) == (None, ())
    monkeypatch.setattr("kvquarry_server.attachment._MOST_EVICTIONS", 2)
    assert [num_evicted(apply(attachment, BeginStep())) for _ in range(3)] == [2, 1, 0]


def test_a_quiet_batch_is_answered_when_very_many_evictions_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("kvquarry_server.attachment._MOST_EVICTIONS", 3)
    quiet = with_three_evictions(ready_attachment())
    assert quiet.usage is not None
    assert num_evicted(quiet) == 3
