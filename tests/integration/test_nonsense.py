"""A service that answers what no service should is refused with a typed error."""

from collections.abc import Callable
from pathlib import Path

import pytest

from kvquarry.v1alpha import pool_pb2
from kvquarry_client.channel import open_channel
from kvquarry_client.errors import Nonsense
from kvquarry_client.session import Session
from kvquarry_client.target import Target
from kvquarry_core.ids import Handle
from kvquarry_core.messages import AdmitRequest, GrowRequest, PinRequest
from kvquarry_core.plan import make_plan
from kvquarry_server.conversion.plans import plan_to_wire
from tests.client.pools import HYBRID
from tests.integration.strange_service import WELCOME, Requests, Responses, StrangeService, serving

Answer = pool_pb2.Answer
PLAN = make_plan(HYBRID, 40 * 192)
GROW = GrowRequest(Handle(1), [0, 0, 1])
ADMIT = AdmitRequest(Handle(1), [], num_tokens=8, max_hit_tokens=4, max_grant_tokens=8)
NONE = pool_pb2.BlockList()


def granting(*blocks: int, num_groups: int = 3, moves: pool_pb2.Moves | None = None) -> Answer:
    """Attention blocks for a request of the hybrid."""
    columns = [NONE] * (num_groups - 1)
    columns.append(pool_pb2.BlockList(blocks=blocks))
    grant = pool_pb2.Grant(blocks=columns, dirty=[NONE] * num_groups, moves=moves)
    return pool_pb2.Answer(grant=grant)


LAST = PLAN.classes[0].num_blocks - 1
GRANT = granting(LAST)
MOVED = pool_pb2.Moves(size_classes=[0], sources=[1], targets=[LAST + 1])
GONE = pool_pb2.Eviction(kind=0, hashes=[b"x"])


def answering(*results: pool_pb2.BatchResult) -> Callable[[Requests], Responses]:
    """Answers each batch with these results, numbered from the batch's own number on."""

    def attach(requests: Requests) -> Responses:
        next(requests)
        yield WELCOME
        for request in requests:
            for result in results:
                told = pool_pb2.BatchResult()
                told.CopyFrom(result)
                told.number += request.batch.number
                yield pool_pb2.AttachResponse(result=told)

    return attach


def attached(target: Target, *, hears_evictions: bool = True) -> Session:
    opened = pool_pb2.OpenPoolResponse(
        pool_id="p",
        incarnation=1,
        plan=plan_to_wire(PLAN),
        policies=pool_pb2.Policies(relocation="off"),
    )
    session = Session(
        open_channel(target),
        target,
        opened,
        PLAN,
        reconnect_timeout_s=2,
        hears_evictions=hears_evictions,
    )
    session.start()
    return session


@pytest.mark.parametrize(
    ("result", "told"),
    [
        (pool_pb2.BatchResult(), "asked for 1 answers and got 0"),
        (pool_pb2.BatchResult(answers=[pool_pb2.Answer()]), "answered with None"),
        (
            pool_pb2.BatchResult(answers=[pool_pb2.Answer(refusal=pool_pb2.Refusal(cause=9))]),  # type: ignore[arg-type]
            "cause 9",
        ),
        (pool_pb2.BatchResult(number=5, answers=[GRANT]), "answered as batch 6"),
        (pool_pb2.BatchResult(answers=[granting(LAST + 1)]), f"last one is {LAST}"),
        (pool_pb2.BatchResult(answers=[granting(0)]), "blocks 0 to 0 of group 2,"),
        (pool_pb2.BatchResult(answers=[granting(1, 2)]), r"\[0, 0, 2\] blocks were granted"),
        (pool_pb2.BatchResult(answers=[granting(1, num_groups=2)]), "blocks of 2 groups"),
        (pool_pb2.BatchResult(answers=[granting(1, moves=MOVED)]), "do not exist"),
        (
            pool_pb2.BatchResult(answers=[Answer(ahead=pool_pb2.AheadGrant())]),
            "GrowRequest was answered with AheadGrant",
        ),
    ],
)
def test_an_answer_that_is_none_is_refused(
    tmp_path: Path, result: pool_pb2.BatchResult, told: str
) -> None:
    service = StrangeService(answering(result))
    with serving(service, tmp_path / "s") as target:
        session = attached(target)
        with pytest.raises(Nonsense, match=told):
            session.ask([GROW])
        session.close()


def test_a_hit_without_blocks_is_refused(tmp_path: Path) -> None:
    """Lists are left out where nothing is hit, and only there."""
    admission = pool_pb2.Admission(hit_tokens=4, longest_tokens=4, grant=GRANT.grant)
    result = pool_pb2.BatchResult(answers=[Answer(admission=admission)])
    with serving(StrangeService(answering(result)), tmp_path / "s") as target:
        session = attached(target)
        with pytest.raises(Nonsense, match="blocks of 0 groups"):
            session.ask([ADMIT])
        session.close()


def test_another_answer_than_to_a_reset_is_refused(tmp_path: Path) -> None:
    result = pool_pb2.BatchResult(answers=[GRANT])
    with serving(StrangeService(answering(result)), tmp_path / "s") as target:
        session = attached(target)
        with pytest.raises(Nonsense, match="reset the cache"):
            session.reset_cache()
        session.close()


def test_a_result_that_is_told_twice_evicts_once(tmp_path: Path) -> None:
    result = pool_pb2.BatchResult(answers=[GRANT], evictions=[GONE])
    with serving(StrangeService(answering(result, result)), tmp_path / "s") as target:
        session = attached(target)
        for _ in range(2):
            session.ask([GROW])
        assert len(session.take_evictions()) == 2
        session.close()


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (GRANT, "PinRequest was answered with Grant"),
        (Answer(refusal=pool_pb2.Refusal(cause=1)), "PinRequest was answered with Refusal"),  # type: ignore[arg-type]
        (Answer(pin_refusal=pool_pb2.PinRefusal(cause=77)), "cause 77"),  # type: ignore[arg-type]
    ],
)
def test_a_pin_is_pinned_or_refused_as_one(tmp_path: Path, answer: Answer, told: str) -> None:
    service = StrangeService(answering(pool_pb2.BatchResult(answers=[answer])))
    with serving(service, tmp_path / "s") as target:
        session = attached(target)
        with pytest.raises(Nonsense, match=told):
            session.ask([PinRequest("p", [], 1.0)])
        session.close()


def test_an_ask_for_blocks_is_not_answered_with_a_pin(tmp_path: Path) -> None:
    result = pool_pb2.BatchResult(answers=[Answer(pinned=pool_pb2.Pinned(token_count=1))])
    with serving(StrangeService(answering(result)), tmp_path / "s") as target:
        session = attached(target)
        with pytest.raises(Nonsense, match="GrowRequest was answered with Pinned"):
            session.ask([GROW])
        session.close()
