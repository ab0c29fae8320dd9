"""What stays free beside an admission grows with those that run, and with nothing else."""

from kvquarry_core.plan import Plan, make_plan
from kvquarry_core.reserve import DecodeReserve
from tests.core.small_pools import attention, states, window

#: Two groups of attention with 16 tokens a block, three groups of states.
HYBRID = make_plan([*[attention(64, 16)] * 2, *[states(160, 16)] * 3], 192 * 200)


def reserve(plan: Plan, num_running: int, num_prompts: int = 0) -> list[int]:
    return DecodeReserve(plan).blocks(num_running, num_prompts)


def test_an_empty_engine_keeps_nothing_free() -> None:
    assert reserve(HYBRID, 0, 1) == [0, 0]


def test_each_running_request_may_grow_by_64_tokens_in_every_group() -> None:
    assert reserve(HYBRID, 1)[0] == 2 * 4
    assert reserve(HYBRID, 10)[0] == 10 * 2 * 4


def test_a_started_block_counts_as_one() -> None:
    coarse = make_plan([attention(64, 48), states(160, 48)], 192 * 200)
    assert reserve(coarse, 5)[0] == 5 * 2


def test_eight_running_requests_share_a_spare_state_of_each_group() -> None:
    assert [reserve(HYBRID, num_running)[1] for num_running in (1, 8, 9)] == [3, 3, 6]


def test_each_prompt_with_chunks_ahead_has_a_second_state_of_its_own() -> None:
    assert reserve(HYBRID, 8, num_prompts=3)[1] == 3 + 3 * 3


def test_a_pool_of_one_size_keeps_nothing_free() -> None:
    """Such pools are scheduled as vLLM schedules them."""
    one_size = make_plan([attention(64, 16)] * 2, 64 * 100)
    assert reserve(one_size, 50, 4) == [0]


def test_a_window_grows_like_attention() -> None:
    """It gives blocks back only as it passes them, up to a chunk later than it needs others."""
    plan = make_plan([attention(64, 16), window(160, 64, 16)], 320 * 100)
    assert reserve(plan, 4) == [4 * 4, 4 * 4]
