"""Any history of any small pool: 20,000 operations in each run, a million in the nightly one."""

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.core.pool_machine import MovingPoolMachine, PoolMachine
from tests.strategies import examples

NUM_OPERATIONS = 20_000
NUM_NIGHTLY_OPERATIONS = 1_000_000
#: Lives of pools, of at most so many operations each.
LIVES = settings(examples(250), stateful_step_count=100)
#: The night's are new ones each time, in rounds, since a round remembers all that it drew.
NEW_LIVES = settings(
    LIVES, derandomize=False, database=None, suppress_health_check=[HealthCheck.too_slow]
)


#: Of pools that move blocks.
MOVING_LIVES = settings(LIVES, max_examples=40)


def run_lives(lives: settings, machine: type[PoolMachine] = PoolMachine) -> int:
    """How many operations they took, all laws checked after each."""
    before = PoolMachine.num_operations
    run_state_machine_as_test(machine, settings=lives)
    return PoolMachine.num_operations - before


def test_any_history_keeps_every_law() -> None:
    assert run_lives(LIVES) >= NUM_OPERATIONS


def test_any_history_keeps_every_law_while_blocks_move() -> None:
    assert run_lives(MOVING_LIVES, MovingPoolMachine) >= NUM_OPERATIONS // 10


@pytest.mark.nightly
@pytest.mark.timeout(3 * 3600)
def test_a_million_operations_keep_every_law() -> None:
    num_left = NUM_NIGHTLY_OPERATIONS
    while num_left > 0:
        num_left -= run_lives(NEW_LIVES)
        num_left -= run_lives(NEW_LIVES, MovingPoolMachine)
