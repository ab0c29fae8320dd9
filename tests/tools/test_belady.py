"""Whoever knows the future finds at least what anybody finds."""

from collections.abc import Sequence
from functools import cache
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvquarry_core.plan import make_plan
from kvquarry_core.pool import Pool
from kvquarry_tools.simulation.belady import Belady, Sizes
from kvquarry_tools.simulation.checkpoints import checkpoints
from kvquarry_tools.simulation.replay.arrivals import arrivals
from kvquarry_tools.simulation.replay.pools import WholePool
from kvquarry_tools.simulation.replay.sequential import replay_prompts
from kvquarry_tools.simulation.traces import TraceRequest
from tests.tools.simulation.models import attention, states
from tests.tools.simulation.traces import conversation, request

TOKENS_ALONE = Sizes(token_bytes=1, state_bytes=0, unit_tokens=512)


def ignore(num_done: int) -> None:
    pass


def most_hits(letters: str, num_units: int) -> int:
    """The most hits that any choice of what to keep gives, by trying all of them."""

    @cache
    def best(position: int, kept: frozenset[str]) -> int:
        if position == len(letters):
            return 0
        letter = letters[position]
        within_reach = sorted(kept | {letter})
        size = min(num_units, len(within_reach))
        choices = map(frozenset, combinations(within_reach, size))
        return (letter in kept) + max(best(position + 1, choice) for choice in choices)

    return best(0, frozenset())


@given(st.text("abcd", min_size=1, max_size=10), st.integers(1, 3))
def test_no_choice_of_what_to_keep_finds_more(letters: str, num_units: int) -> None:
    trace = [request(letter, more_tokens=1) for letter in letters]
    foreseen = Belady(trace, TOKENS_ALONE, num_units * 512).run(ignore)
    assert foreseen.hit_tokens == 512 * most_hits(letters, num_units)


@pytest.mark.parametrize("num_blocks", [100, 1_000, 4_000])
def test_it_finds_more_than_lru(num_blocks: int) -> None:
    trace = conversation()[:500]
    foreseen = Belady(trace, TOKENS_ALONE, num_blocks * 512).run(ignore)
    assert foreseen.hit_tokens >= lru_hits(trace, num_blocks) > 0


def lru_hits(trace: Sequence[TraceRequest], num_blocks: int) -> int:
    pool = Pool(make_plan([attention()], (num_blocks + 1) * 512))
    rule = checkpoints("last", 512)
    return replay_prompts(WholePool(pool), rule, arrivals(trace, 512), ignore).hit_tokens


def test_with_memory_for_everything_it_finds_all_there_is() -> None:
    trace = conversation()[:200]
    sizes = Sizes(token_bytes=1, state_bytes=2048, unit_tokens=512)
    foreseen = Belady(trace, sizes, 1 << 40).run(ignore)
    pool = Pool(make_plan([attention(), states()], 1 << 26))
    everything = replay_prompts(
        WholePool(pool), checkpoints("dense", 512), arrivals(trace, 512), ignore
    )
    assert foreseen.hit_tokens == everything.hit_tokens
    assert foreseen.num_evictions == 0
