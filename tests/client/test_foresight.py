"""How many states will be needed at once is known from where everybody stands."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvquarry_client.foresight import most_at_once
from tests.client.pools import BLOCK, Engine, engine, prompt
from tests.strategies import examples


def held_at_once(distances: list[int], block_tokens: int, num_steps: int) -> int:
    """The same, step by step: each holds a second state for some steps after each boundary."""
    most = 0
    for step in range(3 * block_tokens):
        since = [(step - distance) % block_tokens for distance in distances]
        most = max(most, sum(steps < num_steps for steps in since))
    return most


@examples(200)
@given(st.lists(st.integers(0, 40), max_size=12), st.integers(1, 16), st.integers(1, 4))
def test_no_more_states_are_ever_needed_and_at_some_time_so_many(
    distances: list[int], block_tokens: int, num_steps: int
) -> None:
    seen = most_at_once(distances, block_tokens, num_steps)
    assert seen == held_at_once(distances, block_tokens, min(num_steps, block_tokens))


def plenty() -> Engine:
    """An engine that has heard that memory is plenty."""
    quarry = engine(num_slabs=600, ahead_tokens=64 * BLOCK)
    assert quarry.admit("first", 5)
    quarry.shadow.free("first")
    return quarry


def started(lengths: list[int]) -> Engine:
    """An engine with plenty of memory whose requests decode."""
    quarry = engine(num_slabs=600, ahead_tokens=64 * BLOCK)
    for number, length in enumerate(lengths):
        assert quarry.admit(f"r{number}", length)
    return quarry


@pytest.mark.parametrize("lengths", [[5, 6, 7, 8], [5, 5, 5, 5], [6, 6, 9, 13]])
def test_decoding_needs_nothing_that_did_not_come_with_an_admission(lengths: list[int]) -> None:
    """Whether boundaries are spread over the steps, or all requests come to one together."""
    quarry = started(lengths)
    asked = quarry.ledger.num_exchanges
    assert asked == len(lengths)
    decode(quarry, lengths)
    assert quarry.ledger.num_exchanges == asked


@pytest.mark.parametrize("lengths", [[5, 6, 7, 8], [5, 5, 5, 5], [1, 1, 1], [1, 2, 3, 3]])
def test_nor_anything_that_did_not_come_with_the_admission_of_all(lengths: list[int]) -> None:
    quarry = plenty()
    asked = quarry.ledger.num_exchanges
    first, *others = [prompt(f"r{number}", length) for number, length in enumerate(lengths)]
    quarry.shadow.lookup(first, others)
    for number, length in enumerate(lengths):
        assert quarry.admit(f"r{number}", length)
    decode(quarry, lengths)
    assert quarry.ledger.num_exchanges == asked + 1


def decode(quarry: Engine, lengths: list[int]) -> None:
    """Eight blocks for each request, in step."""
    for step in range(1, 8 * BLOCK):
        quarry.shadow.begin_step()
        for number, length in enumerate(lengths):
            assert quarry.decode(f"r{number}", length + step)
