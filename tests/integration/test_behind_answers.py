"""Where memory is plenty, an ask overtakes what its answer does not depend on."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from kvquarry.v1alpha import pool_pb2
from kvquarry_client.session import Session
from kvquarry_core.ids import BlockHash, BlockId, Handle, KindId
from kvquarry_core.messages import AdmitRequest, Answer, Ask, FullRows
from tests.contract.running_service import RunningService, sound_service
from tests.integration.opening import POOL_BYTES, opened
from tests.integration.proxy import Link
from tests.integration.strange_service import (
    WELCOME,
    Requests,
    Responses,
    StrangeService,
    serving,
)
from tests.integration.test_nonsense import ADMIT, GRANT, GROW, attached
from tests.integration.test_session import run_script, shadow_over

AHEAD_TOKENS = 16
REFUSAL = pool_pb2.Answer(refusal=pool_pb2.Refusal(cause=pool_pb2.REFUSAL_CAUSE_SHORTAGE))
ROWS = FullRows(Handle(4), KindId(0), [BlockHash(b"a")], [BlockId(1), BlockId(2)])


@pytest.fixture(scope="module")
def service() -> Iterator[RunningService]:
    with sound_service() as service:
        yield service


class Listener:
    """Answers every batch that waits, and keeps all messages."""

    def __init__(self) -> None:
        self.heard: list[pool_pb2.AttachRequest] = []

    def attach(self, requests: Requests) -> Responses:
        next(requests)
        yield WELCOME
        for request in requests:
            self.heard.append(request)
            if not request.batch.quiet:
                asked = request.batch.operations[-1].WhichOneof("operation")
                answer = REFUSAL if asked == "admit" else GRANT
                result = pool_pb2.BatchResult(number=request.batch.number, answers=[answer])
                yield pool_pb2.AttachResponse(result=result)


@pytest.fixture
def listener() -> Listener:
    return Listener()


@pytest.fixture
def session(listener: Listener, tmp_path: Path) -> Iterator[Session]:
    with serving(StrangeService(listener.attach), tmp_path / "s") as target:
        session = attached(target, hears_evictions=False)
        yield session
        session.close()


def sorts(batch: pool_pb2.Batch) -> list[str | None]:
    return [operation.WhichOneof("operation") for operation in batch.operations]


def numbers(message: pool_pb2.AttachRequest) -> list[int]:
    return [batch.number for batch in (message.batch, *message.following)]


def test_nobody_waits_for_what_bears_on_no_answer(listener: Listener, session: Session) -> None:
    session.free(Handle(4))
    session.commit(ROWS)
    session.begin_step()
    session.free(Handle(7))
    session.ask_first([GROW])
    [message] = listener.heard
    assert sorts(message.batch) == ["begin_step", "grow"]
    [following] = message.following
    assert sorts(following) == ["free", "commit", "begin_step", "free"]
    assert (message.batch.number, following.number) == (1, 2)
    assert following.quiet
    session.ask_first([GROW])
    assert listener.heard[1].batch.number == 3
    assert not listener.heard[1].following


def test_whoever_may_hit_what_was_committed_waits_for_that(
    listener: Listener, session: Session
) -> None:
    session.commit(ROWS)
    session.free(Handle(4))
    session.ask_first([replace(ADMIT, hashes=[BlockHash(b"other"), *ROWS.hashes])])
    [message] = listener.heard
    assert sorts(message.batch) == ["commit", "admit"]
    assert [sorts(batch) for batch in message.following] == [["free"]]


def test_without_plenty_of_memory_all_comes_before(listener: Listener, session: Session) -> None:
    session.free(Handle(4))
    session.begin_step()
    session.ask([GROW])
    [message] = listener.heard
    assert sorts(message.batch) == ["free", "begin_step", "grow"]
    assert not message.following


def test_a_message_is_kept_until_all_of_it_was_applied(tmp_path: Path) -> None:
    """The stream breaks behind the first answer: what followed is sent again."""
    heard: list[pool_pb2.AttachRequest] = []

    def attach(requests: Requests) -> Responses:
        next(requests)
        yield WELCOME
        for request in requests:
            heard.append(request)
            for batch in (request.batch, *request.following):
                if not batch.quiet:
                    result = pool_pb2.BatchResult(number=batch.number, answers=[GRANT])
                    yield pool_pb2.AttachResponse(result=result)
            if len(heard) == 1:
                return

    with serving(StrangeService(attach), tmp_path / "s") as target:
        session = attached(target)
        session.free(Handle(4))
        session.ask_first([GROW])
        session.ask_first([GROW])
        session.close()
    assert [numbers(one) for one in heard] == [[1, 2], [1, 2, 3]]


def test_a_link_cut_at_any_point_loses_nothing_that_follows(
    service: RunningService, link: Link
) -> None:
    """A roomy pool, where requests are freed behind admissions; ids differ from inproc's."""
    ledger, plan = opened(service.target, "whole", pool_bytes=64 * POOL_BYTES)
    expected = run_script(shadow_over(ledger, plan, ahead_tokens=AHEAD_TOKENS), seed=1)
    ledger.close()
    for cut in range(5):
        engine = f"cut-{cut}"
        ledger, plan = opened(f"unix:{link.front}", engine, pool_bytes=64 * POOL_BYTES)
        link.bytes_until_cut = 300 + 733 * cut
        shadow = shadow_over(ledger, plan, ahead_tokens=AHEAD_TOKENS)
        assert run_script(shadow, seed=1) == expected
        assert link.bytes_until_cut is None, "the link was never cut"
        ledger.close()


def test_books_agree_when_requests_were_freed_behind(
    service: RunningService, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger, plan = opened(service.target, "books", pool_bytes=64 * POOL_BYTES)
    told: list[Ask] = []
    ask_first = ledger.ask_first

    def listen(asks: Sequence[Ask]) -> list[Answer]:
        told.extend(asks)
        return ask_first(asks)

    monkeypatch.setattr(ledger, "ask_first", listen)
    run_script(shadow_over(ledger, plan, ahead_tokens=AHEAD_TOKENS), seed=2)
    assert any(isinstance(ask, AdmitRequest) for ask in told), "memory was never plenty"
    ledger.close()
