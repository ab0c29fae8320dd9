"""Pins of a served pool: time, operators, and what is told of them."""

import pytest

from kvquarry_core.errors import Reason
from kvquarry_core.ids import BlockHash, GroupId, Handle, KindId
from kvquarry_core.integrity import check_integrity
from kvquarry_core.messages import AdmitRequest, Pinned, PinRefusal, PinRequest
from kvquarry_server.attachment import Attachment
from kvquarry_server.conversion.pins import pins_to_wire
from kvquarry_server.conversion.statuses import plain, status_to_wire
from kvquarry_server.operations import Batch, BeginStep, Commit, Free, Operation, Take, Unpin
from kvquarry_server.outcomes import BatchOutcome
from kvquarry_server.registry import PinNames, Policy, Registry, Unpinned
from kvquarry_server.status import Boot, pins_of, status_of
from kvquarry_server.status_table import pin_table, status_table
from tests.server.doubles import FakeClock, FakeStream, ready_attachment

ONE = Handle(1)
PROMPT = [BlockHash(b"0-4"), BlockHash(b"4-8")]


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def registry(clock: FakeClock) -> Registry:
    return Registry(Policy(lease_s=5, attach_s=900), clock)


def apply(attachment: Attachment, *operations: Operation) -> BatchOutcome:
    outcome = attachment.apply(Batch(attachment.last_batch_number + 1, list(operations)))
    check_integrity(attachment.pool)
    return outcome


def serving(registry: Registry, engine: str = "engine") -> Attachment:
    """An engine that has eight tokens cached and goes on."""
    attachment = ready_attachment(registry, engine)
    registry.attach(attachment.identity.pool_id, 1, FakeStream())
    apply(attachment, AdmitRequest(ONE, (), 9, 0, 9))
    held = [list(blocks) for blocks in attachment.pool.requests[ONE].granted]
    rows = [block for row in zip(held[0][:2], held[1][:2], strict=True) for block in row]
    apply(
        attachment,
        Take([ONE] * 3, [GroupId(0), GroupId(1), GroupId(2)], [2, 2, 1]),
        Commit([ONE], [KindId(0)], [2], PROMPT, rows),
        Commit([ONE], [KindId(1)], [1], PROMPT[1:], held[2][:1]),
        Free([ONE]),
        BeginStep(),
    )
    return attachment


def pin(attachment: Attachment, name: str = "p", ttl_s: float = 60) -> BatchOutcome:
    return apply(attachment, PinRequest(name, PROMPT, ttl_s))


def test_a_pin_is_answered_with_what_it_holds(registry: Registry) -> None:
    (answer,) = pin(serving(registry)).answers
    assert isinstance(answer, Pinned)
    assert answer.num_tokens == 8
    assert answer.pinned_bytes <= answer.cap_bytes


def test_a_refused_pin_is_no_mutation_and_no_mistake(registry: Registry) -> None:
    attachment = serving(registry)
    before = attachment.revision
    outcome = apply(attachment, PinRequest("p", [BlockHash(b"other")], 60))
    assert isinstance(outcome.answers[0], PinRefusal)
    assert outcome.error is None
    assert outcome.revision == before


def test_a_pin_without_a_sensible_end_is_a_mistake(registry: Registry) -> None:
    outcome = pin(serving(registry), ttl_s=-1)
    assert outcome.error is not None
    assert outcome.error.reason is Reason.INVALID_ARGUMENT


def test_a_lapsed_pin_is_over_before_anything_else_of_a_batch(
    registry: Registry, clock: FakeClock
) -> None:
    """What it held can be handed out by that very batch."""
    attachment = serving(registry)
    pin(attachment, ttl_s=10)
    clock.advance(10)
    apply(attachment)
    assert len(attachment.pool.pins) == 0


def test_a_lapsed_pin_is_over_though_nobody_asks_for_anything(
    registry: Registry, clock: FakeClock
) -> None:
    attachment = serving(registry)
    pin(attachment, ttl_s=10)
    clock.advance(9)
    registry.drop_lapsed()
    assert len(attachment.pool.pins) == 1
    clock.advance(1)
    registry.drop_lapsed()
    assert len(attachment.pool.pins) == 0
    check_integrity(attachment.pool)


def test_a_repeated_batch_does_not_extend_a_pin(registry: Registry, clock: FakeClock) -> None:
    attachment = serving(registry)
    pin(attachment, ttl_s=10)
    clock.advance(5)
    attachment.apply(Batch(attachment.last_batch_number, [PinRequest("p", PROMPT, 10)]))
    clock.advance(5)
    registry.drop_lapsed()
    assert len(attachment.pool.pins) == 0


def test_an_engine_ends_its_pins(registry: Registry) -> None:
    attachment = serving(registry)
    pin(attachment)
    outcome = apply(attachment, Unpin(["x", "p", "p"]))
    assert outcome.error is None
    assert outcome.answers == ()
    assert len(attachment.pool.pins) == 0


def test_what_a_pin_holds_is_used_and_written_though_no_request_runs(registry: Registry) -> None:
    attachment = serving(registry)
    pin(attachment)
    attachment.apply(Batch(attachment.last_batch_number + 1, [], empty_slots=[0, 0]))
    (pool,) = status_of(Boot("b", "v", 0), registry).pools
    assert pool.num_requests == 0
    assert pool.slots is not None
    assert pool.slots.written_bytes == pool.usage.used_bytes == pool.pins.pinned_bytes > 0
    assert sum(one.active for one in pool.usage.classes) > 0


def test_an_operator_ends_pins_of_one_engine_or_of_all(registry: Registry) -> None:
    engines = [serving(registry, name) for name in ("one", "two", "three")]
    for attachment in engines:
        pin(attachment)
    assert registry.unpin(PinNames(frozenset({"p", "x"}), "two")) == Unpinned(1, ("x",))
    assert [len(one.pool.pins) for one in engines] == [1, 0, 1]
    assert registry.unpin(PinNames(frozenset({"p"}))) == Unpinned(2)
    assert registry.unpin(PinNames(frozenset({"p"}))) == Unpinned(0, ("p",))
    nobody = PinNames(frozenset({"p"}), "nobody")
    assert registry.unpin(nobody) == Unpinned(0, ("p",), is_engine_missing=True)


def test_the_share_that_pins_may_hold_is_the_services(clock: FakeClock) -> None:
    registry = Registry(Policy(pin_cap=0.0), clock)
    assert isinstance(pin(serving(registry)).answers[0], PinRefusal)


def test_the_list_of_pins_says_whose_they_are_and_when_they_end(
    registry: Registry, clock: FakeClock
) -> None:
    attachment = serving(registry)
    pin(attachment, "late", ttl_s=600)
    pin(attachment, "soon", ttl_s=60)
    clock.advance(15)
    registry.drop_lapsed()
    table = pin_table(plain(pins_to_wire(pins_of(registry))))
    assert table.splitlines() == [
        "engine   pin  tokens    holds  ends in",
        "engine  soon       8  1.0 KiB     45 s",
        "engine  late       8  1.0 KiB    9 min",
    ]


def test_without_pins_the_list_says_so(registry: Registry) -> None:
    serving(registry)
    assert pin_table(plain(pins_to_wire(pins_of(registry)))) == "nothing is pinned"


def test_the_status_shows_pins_where_there_were_any(registry: Registry) -> None:
    attachment = serving(registry)

    def shown() -> str:
        return status_table(plain(status_to_wire(status_of(Boot("b", "1.0", 0.0), registry))))

    assert "pins" not in shown()
    pin(attachment)
    apply(attachment, PinRequest("q", [BlockHash(b"other")], 60))
    line = "  pins      1 hold 1.0 KiB of at most 1.5 KiB; 1 were refused, 0 gave way"
    assert line in shown().splitlines()
