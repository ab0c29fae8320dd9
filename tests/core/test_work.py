"""What a model's work makes of cached content."""

import math
import re

import pytest

from kvquarry_core.errors import Reason, UsageError
from kvquarry_core.eviction import Lru, SavedWork
from kvquarry_core.ids import BlockHash, BlockId, ClassId, KindId
from kvquarry_core.plan import make_plan
from kvquarry_core.pool import Pool
from kvquarry_core.work import TOKENS, Work
from tests.core.small_pools import STATES, attention, cache, one_class, states

SMALL, LARGE = ClassId(0), ClassId(1)
ATTENTION = KindId(0)
#: All of a token's work is to meet those before it.
PAIRS = Work(token_flops=0.0, token_pair_flops=2.0)


def pool_of(work: Work, num_states: int = 20) -> Pool:
    """Attention of 16 bytes a token and states of 48."""
    return Pool(make_plan([attention(16), states(48)], 48 * num_states), work=work)


def checkpoint(pool: Pool, handle: int, prompt: str) -> BlockId:
    """A cached state after a prompt, one letter a token."""
    cache(pool, handle, prompt)
    block = pool.store.index.find(STATES, BlockHash(prompt.encode()))
    assert block is not None
    return block


def test_the_work_of_a_prefix_grows_with_its_length_and_with_its_pairs() -> None:
    """Five tokens; the first meets one (itself), the last five: 1 + 2 + 3 + 4 + 5 pairs."""
    assert Work(token_flops=100.0, token_pair_flops=2.0).of_prefix(5) == 5 * 100 + 15 * 2
    assert Work(token_flops=7.0).of_prefix(5) == 35
    assert TOKENS.of_prefix(5) == 5
    assert PAIRS.of_prefix(0) == 0


@pytest.mark.parametrize("flops", [-1.0, math.inf, -math.inf, math.nan, 1e25])
@pytest.mark.parametrize("name", ["token_flops", "token_pair_flops"])
def test_what_is_no_amount_of_work_is_refused_by_name(name: str, flops: float) -> None:
    work = Work(**{"token_flops": 1.0, name: flops})
    with pytest.raises(UsageError, match=re.escape(f"{name} of {flops}: give")) as caught:
        work.check()
    assert caught.value.reason is Reason.INVALID_ARGUMENT


def test_any_real_amount_of_work_is_taken() -> None:
    Work(token_flops=0.0).check()
    Work(token_flops=1.1e12, token_pair_flops=4.2e6).check()
    assert math.isfinite(Work(1e24, 1e24).of_prefix(1 << 32))


def test_a_checkpoint_saves_the_work_of_its_prefix_and_attention_that_of_its_tokens() -> None:
    pool = pool_of(Work(token_flops=100.0, token_pair_flops=2.0))
    block = checkpoint(pool, 1, "abcde")
    view = pool.store.cache
    assert view.saved_flops_per_byte(LARGE, block) == (5 * 100 + 15 * 2) / 48
    for part in ("a", "abcde"):
        row = pool.store.index.find(ATTENTION, BlockHash(part.encode()))
        assert row is not None
        assert view.saved_flops_per_byte(SMALL, row) == 100 / 16


def test_tokens_stand_for_work_that_nobody_told() -> None:
    pool = Pool(make_plan([attention(16), states(48)], 48 * 20))
    block = checkpoint(pool, 1, "abcde")
    assert pool.store.cache.saved_flops_per_byte(LARGE, block) == 5 / 48


@pytest.mark.parametrize(("work", "loser"), [(TOKENS, 0), (PAIRS, 1)])
def test_work_chooses_another_victim_than_tokens_do(work: Work, loser: int) -> None:
    """Checkpoints of seven, five and eight tokens, the deepest the youngest.

    ::

        age / 3     0     1/3    2/3
        tokens     7/8    5/8    8/8      sums  0.875  0.958  1.667   the oldest goes
        pairs     28/36  15/36  36/36     sums  0.778  0.750  1.667   the shallowest goes
    """
    pool = pool_of(work)
    blocks = [checkpoint(pool, i, text) for i, text in enumerate(("abcdefg", "hijkl", "mnopqrst"))]
    assert list(pool.store.cache.by_age(LARGE)) == blocks
    assert SavedWork().victims(pool.store.cache, LARGE, 1) == (blocks[loser],)


def test_attention_goes_from_the_tail_to_the_head_whatever_a_place_saves() -> None:
    """Two prompts with a common head: it fell out of use with the one that ended last."""
    pool = Pool(one_class(20), work=PAIRS)
    for handle, prompt in enumerate(("aaaaaaaa", "aaaabb")):
        cache(pool, handle, prompt)
    texts, view = [], pool.store.cache
    names = pool.store.contents.hashes(SMALL)
    while view.num_cached(SMALL):
        for victim in SavedWork().victims(view, SMALL, 1):
            texts.append(names[victim])
            pool.store.evict(SMALL, (victim,))
    assert texts == [
        *[b"aaaaaaaa"[:end] for end in (8, 7, 6, 5)],
        *[b"aaaabb"[:end] for end in (6, 5, 4, 3, 2, 1)],
    ]


@pytest.mark.parametrize("work", [TOKENS, PAIRS])
def test_where_all_save_alike_as_many_go_as_recency_lets_go(work: Work) -> None:
    pool = Pool(one_class(20), work=work)
    for handle, prompt in enumerate(("abcdef", "xyz")):
        cache(pool, handle, prompt)
    view = pool.store.cache
    for most in (1, 4, 20):
        assert SavedWork().victims(view, SMALL, most) == Lru().victims(view, SMALL, most)
