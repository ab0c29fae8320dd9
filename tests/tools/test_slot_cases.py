"""C15: blocks in use and slots with content are two figures, and both are told."""

import pytest

from kvquarry_core.ids import GroupId, Handle
from kvquarry_core.messages import Admission, AdmitRequest
from kvquarry_core.plan import GroupKind, GroupSpec, make_plan
from kvquarry_core.pool import Pool
from kvquarry_core.usage import usage_of
from kvquarry_tools.simulation.replay.occupancy import measure

BLOCK_TOKENS = 16
NUM_REQUESTS = 2_000


def test_c15_two_thirds_of_the_blocks_are_used_and_a_good_third_of_the_slots() -> None:
    """2,000 requests of 17 and 18 tokens, half each, in 6,000 blocks of 16: two blocks each."""
    attention = GroupSpec(GroupKind.FULL_ATTENTION, BLOCK_TOKENS, 256, 1)
    pool = Pool(make_plan([attention], 6_001 * 256))
    num_empty_tokens = 0
    for number in range(NUM_REQUESTS):
        num_tokens = 17 + number % 2
        request = AdmitRequest(Handle(number), (), num_tokens, 0, num_tokens)
        answer = pool.admit(request)
        assert isinstance(answer, Admission)
        [blocks] = answer.grant.blocks
        pool.take(request.handle, GroupId(0), len(blocks))
        num_empty_tokens += len(blocks) * BLOCK_TOKENS - num_tokens
    usage = usage_of(pool)
    assert usage.used_bytes / usage.usable_bytes == pytest.approx(0.667, abs=0.001)
    occupancy = measure([pool], num_empty_tokens, now_s=0)
    assert occupancy.content == pytest.approx(0.365, abs=0.001)
    assert occupancy.content + occupancy.internal == pytest.approx(0.667, abs=0.001)
