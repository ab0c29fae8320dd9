"""Shadow and pool keep the same books, and where they do not it is found at the next comparison."""

from collections.abc import Callable

import pytest

from kvquarry_client.inproc import InprocLedger
from kvquarry_core.errors import Reason, UsageError
from tests.client.pools import BLOCK, Engine, engine


def busy() -> Engine:
    """Requests that run, one that is only looked up, and one whose last step is in flight."""
    quarry = engine(num_slabs=60, ahead_tokens=4 * BLOCK)
    for name in "abc":
        assert quarry.admit(name, 3 * BLOCK + 1, "same")
        quarry.shadow.begin_step()
    quarry.shadow.detach("b")
    quarry.decode("a", 4 * BLOCK + 1)
    return quarry


def test_both_sides_agree_in_the_middle_of_things() -> None:
    quarry = busy()
    for num_tokens in range(4 * BLOCK + 2, 9 * BLOCK):
        quarry.shadow.begin_step()
        assert quarry.decode("a", num_tokens)


FAULTS: dict[str, Callable[[InprocLedger], object]] = {
    "a block is lost": lambda ledger: next(iter(ledger.pool.requests.values())).held[2].pop(),
    "a grant is lost": lambda ledger: ledger.pool.settle(min(ledger.pool.requests)),
    "a leased state is lost": lambda ledger: ledger.pool.lease.blocks[0].pop(),
    "a request is lost": lambda ledger: ledger.pool.free(min(ledger.pool.requests)),
}


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
def test_a_difference_is_found_in_the_next_step(fault: Callable[[InprocLedger], object]) -> None:
    quarry = busy()
    fault(quarry.ledger)
    with pytest.raises(UsageError, match="do not agree") as caught:
        quarry.shadow.begin_step()
    assert caught.value.reason is Reason.BOOKS_DIFFER
