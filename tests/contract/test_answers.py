"""Grants and admissions arrive as they were sent, though what is empty is not."""

from hypothesis import given
from hypothesis import strategies as st

from kvquarry.v1alpha import pool_pb2
from kvquarry_client.wire.results import answer as read_answer
from kvquarry_core.ids import BlockId
from kvquarry_core.messages import Admission, AheadGrant, Answer, Grant
from kvquarry_core.usage import PoolUsage
from kvquarry_server.conversion.outcomes import outcome_to_wire
from kvquarry_server.outcomes import BatchOutcome
from tests.strategies import examples

NUM_GROUPS = 3
BLOCK_IDS = st.integers(1, 1 << 20).map(BlockId)
COLUMNS = st.tuples(*[st.one_of(st.just([]), st.lists(BLOCK_IDS, max_size=4))] * NUM_GROUPS)
NOTHING = st.tuples(*[st.builds(list[BlockId])] * NUM_GROUPS)
GRANTS = COLUMNS.flatmap(
    lambda blocks: st.builds(Grant, st.just(blocks), st.one_of(NOTHING, COLUMNS, st.just(blocks)))
)
ADMISSIONS = st.one_of(
    st.builds(Admission, st.just(0), st.integers(0, 64), NOTHING, GRANTS),
    st.builds(Admission, st.integers(1, 64), st.just(64), COLUMNS, GRANTS),
)
AHEAD = st.lists(GRANTS, max_size=3).map(lambda grants: AheadGrant(tuple(grants)))


def on_the_wire(answer: Answer) -> pool_pb2.Answer:
    outcome = BatchOutcome(1, 2, (answer,), None, (), PoolUsage((), 0, 0, 0))
    sent = outcome_to_wire("boot", outcome).SerializeToString()
    [message] = pool_pb2.AttachResponse.FromString(sent).result.answers
    return message


@examples(200)
@given(st.one_of(GRANTS, ADMISSIONS, AHEAD))
def test_every_group_has_its_list(answer: Answer) -> None:
    assert read_answer(on_the_wire(answer)) == answer


def test_what_is_empty_in_all_groups_costs_nothing() -> None:
    empty: tuple[list[BlockId], ...] = ([], [])
    message = on_the_wire(Admission(0, 0, empty, Grant(([BlockId(1)], []), empty)))
    assert not message.admission.hit_blocks
    assert not message.admission.grant.dirty
    assert len(message.admission.grant.blocks) == 2


def test_blocks_that_are_all_to_be_zeroed_are_named_once() -> None:
    blocks: tuple[list[BlockId], ...] = ([BlockId(1), BlockId(2)], [])
    message = on_the_wire(Grant(blocks, ([BlockId(1), BlockId(2)], [])))
    assert message.grant.all_dirty
    assert not message.grant.dirty
    some = on_the_wire(Grant(blocks, ([BlockId(2)], [])))
    assert not some.grant.all_dirty
    assert [list(one.blocks) for one in some.grant.dirty] == [[2], []]
