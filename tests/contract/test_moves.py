"""What the pool moved crosses the wire, and the status counts it."""

import json

import pytest

from kvquarry.v1alpha import pool_pb2
from kvquarry_client.wire.results import answer as read_answer
from kvquarry_core.ids import BlockId, ClassId
from kvquarry_core.messages import Admission, Answer, Grant
from kvquarry_core.relocation import Move
from kvquarry_core.usage import PoolUsage
from kvquarry_server.conversion.outcomes import outcome_to_wire
from kvquarry_server.outcomes import BatchOutcome
from tests.contract.kvquarry_command import kvquarry
from tests.contract.running_service import connected, running_service
from tests.contract.wire_engine import ATTENTION, begin_step, ready_engine, take

MOVES = (
    Move(ClassId(0), BlockId(7), BlockId(3)),
    Move(ClassId(0), BlockId(8), BlockId(4)),
    Move(ClassId(1), BlockId(2), BlockId(1)),
)
GRANT = Grant(([BlockId(1)], [BlockId(2)]), ([BlockId(1)], []), MOVES)


@pytest.mark.parametrize(
    "answer",
    [
        GRANT,
        Admission(4, 8, ([BlockId(5)], []), GRANT),
        Grant(([BlockId(1)], []), ([], [])),
    ],
    ids=["grant", "admission", "without moves"],
)
def test_moves_arrive_as_they_were_sent_and_in_order(answer: Answer) -> None:
    outcome = BatchOutcome(1, 2, (answer,), None, (), PoolUsage((), 0, 0, 0))
    sent = outcome_to_wire("boot", outcome).SerializeToString()
    [message] = pool_pb2.AttachResponse.FromString(sent).result.answers
    assert read_answer(message) == answer


def test_a_pool_with_holes_moves_blocks_for_a_state_and_says_so() -> None:
    """One request keeps one block in each slab; a state needs a slab of its own."""
    with (
        running_service("--relocation", "evacuate", "--eviction", "slab-aware") as service,
        connected(service.target) as channel,
    ):
        engine, stream = ready_engine(channel, "engine")
        geometry = engine.opened.plan.size_classes[0]
        admit = pool_pb2.Admit(
            handle=1,
            token_count=4 * geometry.usable_block_count,
            max_grant_tokens=4 * geometry.usable_block_count,
            states_are_leased=True,
        )
        grant = stream.exchange(pool_pb2.Operation(admit=admit)).answers[0].admission.grant
        blocks = list(grant.blocks[ATTENTION].blocks)
        leaving = [block for block in blocks if block % geometry.blocks_per_slab]
        drop = pool_pb2.Drop(
            handles=[1], groups=[ATTENTION], block_counts=[len(leaving)], blocks=leaving
        )
        stream.exchange(
            take(1, ATTENTION, len(blocks)), pool_pb2.Operation(drop=drop), begin_step()
        )
        grow = pool_pb2.Operation(grow=pool_pb2.Grow(handle=1, block_counts=[0, 1]))
        moves = stream.exchange(grow).answers[0].grant.moves
        assert len(moves.sources) == 1
        assert list(moves.size_classes) == [0]
        assert moves.sources[0] in set(blocks) - set(leaving)

        shown = kvquarry("status", "--json", "--target", service.target)
        (pool,) = json.loads(shown.stdout)["pools"]
        assert pool["counters"]["move_counts"] == [1, 0]
        assert pool["policies"] == {
            "placement": "affinity",
            "eviction": "slab-aware",
            "relocation": "evacuate",
            "retention": "engine",
        }
