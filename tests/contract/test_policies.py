"""The service decides where blocks lie: the same messages, another policy, other blocks."""

from kvquarry.v1alpha import pool_pb2
from tests.contract.running_service import connected, running_service
from tests.contract.wire_engine import ATTENTION, admit, ready_engine, take


def block_after_a_hole(placement: str) -> tuple[int, list[int], list[int]]:
    """Where the second request grows once the first has left a hole, and what both had."""
    with (
        running_service("--placement", placement) as service,
        connected(service.target) as channel,
    ):
        engine, stream = ready_engine(channel, "engine")
        per_slab = engine.opened.plan.size_classes[0].blocks_per_slab
        first = stream.exchange(admit(1, 4 * per_slab * 3)).answers[0].admission.grant
        second = stream.exchange(admit(2, 4)).answers[0].admission.grant
        ones, twos = (list(grant.blocks[ATTENTION].blocks) for grant in (first, second))
        drop = pool_pb2.Operation(
            drop=pool_pb2.Drop(handles=[1], groups=[ATTENTION], blocks=[ones[0]])
        )
        grow = pool_pb2.Operation(grow=pool_pb2.Grow(handle=2, block_counts=[1, 0]))
        result = stream.exchange(take(1, ATTENTION, len(ones)), drop, grow)
        (block,) = result.answers[0].grant.blocks[ATTENTION].blocks
        return block, ones, twos


def test_two_policies_give_one_client_different_blocks() -> None:
    near, *before = block_after_a_hole("affinity")
    lowest, *same_before = block_after_a_hole("first-fit")
    assert before == same_before
    (hole, *_), (own, *_) = before
    assert lowest == hole
    assert near == own + 1
