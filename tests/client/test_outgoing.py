"""Asks overtake what their answers do not depend on, and nothing else changes its order.

The other end is a list: gRPC's thread comes for what waits there whenever a test says so.
"""

from collections.abc import Iterator, Sequence
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvquarry.v1alpha import pool_pb2
from kvquarry_client.lasting_stream import LastingStream
from kvquarry_client.outgoing import Outgoing
from kvquarry_client.wire.bearing import Manners
from kvquarry_core.ids import BlockHash, BlockId, GroupId, Handle, KindId
from kvquarry_core.messages import AdmitRequest, FullRows

GROUP = GroupId(0)
CONTENTS = (b"a", b"b", b"c")
#: Operations by what they bear on; a commit on its content, see ``bears``.
BEARING = ("settle", "forget", "compare_books")
FREE_TO_WAIT = ("free", "drop", "give_back", "begin_step")
#: What names blocks, and the start of a step.
NAMING = ("commit", "drop", "give_back", "begin_step")
PLAIN, MOVING, HEARING = Manners(), Manners(moves_blocks=True), Manners(hears_evictions=True)
EVENTS = (*BEARING, *FREE_TO_WAIT, "commit", "ask", "flush", "come")

Event = tuple[str, bytes]
#: Sort, number of the call.
Told = tuple[str, int]


class Wire:
    """What was sent, and what of it waits."""

    def __init__(self) -> None:
        self.came: list[pool_pb2.Batch] = []
        self.waiting: list[pool_pb2.AttachRequest] = []

    def send(self, message: pool_pb2.AttachRequest) -> None:
        self.waiting.append(message)

    @property
    def num_waiting(self) -> int:
        return len(self.waiting)

    def take_back(self, most: int) -> int:
        num_taken = min(most, len(self.waiting))
        del self.waiting[len(self.waiting) - num_taken :]
        return num_taken

    def come(self) -> None:
        while self.waiting:
            self._come_for_one()

    def come_until_asked(self) -> None:
        while self._come_for_one().quiet:
            pass

    def _come_for_one(self) -> pool_pb2.Batch:
        message = self.waiting.pop(0)
        self.came += (message.batch, *message.following)
        return message.batch


class Engine:
    """Calls one operation after the other; each is named by its number."""

    def __init__(self, manners: Manners) -> None:
        self.wire = Wire()
        self.outgoing = Outgoing(cast("LastingStream", self.wire), manners)
        self.num_asks = 0

    def call(self, sort: str, number: int, content: bytes) -> None:
        match sort:
            case "ask":
                self._ask(number, content)
            case "flush":
                self.flush()
            case "come":
                self.wire.come()
            case _:
                self._operate(sort, number, content)

    def flush(self) -> None:
        if self.outgoing.batch:
            self.outgoing.send(quiet=True)

    def _operate(self, sort: str, number: int, content: bytes) -> None:
        handle, blocks = Handle(number), [BlockId(number)]
        arguments: dict[str, tuple[Any, ...]] = {
            "free": (handle,),
            "settle": (handle,),
            "drop": (handle, GROUP, blocks),
            "give_back": (GROUP, blocks),
            "forget": (GROUP, blocks),
            "compare_books": (number, b""),
            "begin_step": (),
            "commit": (self._rows(handle, content, blocks),),
        }
        getattr(self.outgoing.batch, sort)(*arguments[sort])

    @staticmethod
    def _rows(handle: Handle, content: bytes, blocks: list[BlockId]) -> FullRows:
        """Every other time it is known where the name stands: at the text's first place."""
        first = 0 if handle % 2 else None
        return FullRows(handle, KindId(0), [BlockHash(content)], blocks, first)

    def _ask(self, number: int, content: bytes) -> None:
        """As a session asks first; the answer may come before what is behind it has left."""
        self.num_asks += 1
        behind = self.outgoing.leave_behind([[BlockHash(content)]])
        self.outgoing.batch.ask(AdmitRequest(Handle(number), [BlockHash(content)], 8, 4, 8))
        self.outgoing.send(quiet=False, behind=behind)
        self.wire.come_until_asked()


def told(batches: Sequence[pool_pb2.Batch]) -> Iterator[Told]:
    """What the pool hears, in its order; starts of steps have no number."""
    for operation in (one for batch in batches for one in batch.operations):
        sort = operation.WhichOneof("operation")
        match sort:
            case "begin_step":
                yield sort, -1
            case "admit":
                yield "ask", operation.admit.handle
            case "compare_books":
                yield sort, operation.compare_books.revision
            case "give_back" | "forget":
                yield from ((sort, block) for block in getattr(operation, sort).blocks)
            case str():
                yield from ((sort, handle) for handle in getattr(operation, sort).handles)


@pytest.fixture(params=["short", "long"], autouse=True, scope="module")
def _length(request: pytest.FixtureRequest) -> Iterator[None]:
    """Batches that share their asks' messages, and such that are too long for that."""
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "long":
            patch.setattr("kvquarry_client.outgoing.num_that_fit", lambda *_: 0)
        yield


def run(events: Sequence[Event], manners: Manners = PLAIN) -> tuple[Engine, list[Told]]:
    engine = Engine(manners)
    for number, (sort, content) in enumerate(events):
        engine.call(sort, number, content)
    engine.flush()
    engine.wire.come()
    return engine, list(told(engine.wire.came))


def bears(event: Event, content: bytes, manners: Manners) -> bool:
    """Whether an answer to who names this content depends on a call."""
    sort, committed = event
    if sort == "commit" and (manners.hears_evictions or committed == content):
        return True
    return sort in BEARING or (manners.moves_blocks and sort in NAMING)


events_of_engine = st.lists(
    st.tuples(st.sampled_from(EVENTS), st.sampled_from(CONTENTS)), max_size=40
)
any_manners = st.sampled_from([PLAIN, MOVING, HEARING])


@given(events_of_engine, any_manners)
def test_an_ask_comes_behind_what_bears_on_its_answer(
    events: list[Event], manners: Manners
) -> None:
    _, order = run(events, manners)
    for place, (sort, number) in enumerate(order):
        if sort == "ask":
            earlier = [
                one for one in range(number) if bears(events[one], events[number][1], manners)
            ]
            numbered = [one for one in earlier if events[one][0] != "begin_step"]
            assert {*numbered} <= {one for _, one in order[:place]}
            steps = [one for one in range(number) if events[one][0] == "begin_step"]
            if steps:
                assert ("begin_step", -1) in order[:place]


@given(events_of_engine, any_manners)
def test_only_asks_overtake(events: list[Event], manners: Manners) -> None:
    _, order = run(events, manners)
    called = [
        (sort, number)
        for number, (sort, _) in enumerate(events)
        if sort not in ("flush", "come", "ask", "begin_step")
    ]
    assert [one for one in order if one[0] not in ("ask", "begin_step")] == called
    asked = [number for number, (sort, _) in enumerate(events) if sort == "ask"]
    assert [number for sort, number in order if sort == "ask"] == asked


@given(events_of_engine)
def test_the_start_of_a_step_is_told_wherever_it_was_called(events: list[Event]) -> None:
    """Between its neighbours, whatever was told of it ahead besides."""
    _, order = run(events)
    told_so_far = iter(order)
    for number, (sort, _) in enumerate(events):
        if sort == "begin_step":
            assert ("begin_step", -1) in told_so_far
        elif sort not in ("flush", "come", "ask"):
            assert (sort, number) in told_so_far


@given(events_of_engine)
def test_who_may_move_blocks_hears_of_a_step_before_its_asks_and_once(events: list[Event]) -> None:
    _, order = run(events, MOVING)
    steps_and_asks = [
        "begin_step" if sort == "begin_step" else number
        for number, (sort, _) in enumerate(events)
        if sort in ("begin_step", "ask")
    ]
    heard = [sort if sort == "begin_step" else number for sort, number in order]
    assert [one for one in heard if one in steps_and_asks] == steps_and_asks


@given(events_of_engine)
def test_batches_are_numbered_in_the_order_in_which_they_come(events: list[Event]) -> None:
    engine, order = run(events)
    came = engine.wire.came
    assert [batch.number for batch in came] == list(range(1, len(came) + 1))
    assert [batch.quiet for batch in came].count(False) == engine.num_asks
    assert engine.outgoing.revision == sum(len(batch.operations) for batch in came)
    assert engine.outgoing.revision <= len(order)


def test_batches_that_wait_are_overtaken_and_those_that_left_are_not() -> None:
    events = [("commit", b"a"), ("flush", b""), ("come", b"")]
    events += [("commit", b"b"), ("flush", b""), ("free", b""), ("flush", b""), ("ask", b"c")]
    _, order = run(events)
    assert order == [("commit", 0), ("ask", 7), ("commit", 3), ("free", 5)]


@pytest.mark.parametrize("content", CONTENTS[:2])
def test_a_batch_that_waits_is_not_overtaken_by_whoever_names_its_content(content: bytes) -> None:
    events = [("commit", content), ("flush", b""), ("free", b""), ("flush", b""), ("ask", content)]
    _, order = run(events)
    assert order == [("commit", 0), ("ask", 4), ("free", 2)]


def test_what_was_left_behind_once_keeps_its_bearing() -> None:
    """Cut out of its batch by who asked about another text, and not yet sent."""
    events = [("settle", b""), ("commit", b"a"), ("ask", b"b"), ("ask", b"a")]
    _, order = run(events)
    assert order == [("settle", 0), ("ask", 2), ("commit", 1), ("ask", 3)]


def test_what_was_told_of_empty_slots_is_not_told_again_behind_newer_counts() -> None:
    engine = Engine(PLAIN)
    counts = iter([[5], [3]])
    engine.outgoing.count_empty_slots = lambda: next(counts)
    for number, sort in enumerate(("free", "flush", "ask", "come")):
        engine.call(sort, number, b"a")
    assert [list(batch.empty_slot_counts) for batch in engine.wire.came] == [[3], []]
