"""What a model computes reaches whoever weighs content by it."""

import json
import math

import pytest

from kvquarry_client.engine import ledger_of, open_pool
from kvquarry_client.errors import ServiceError
from kvquarry_client.inproc import InprocLedger
from kvquarry_core.errors import UsageError
from kvquarry_core.work import TOKENS, Work
from tests.client.pools import HYBRID
from tests.contract.kvquarry_command import kvquarry
from tests.contract.running_service import sound_service
from tests.integration.opening import POOL_BYTES

TOLD = Work(5.94e9, 163_840)
IMPOSSIBLE = Work(math.inf)


def opened_with(target: str, engine: str, work: Work | None) -> str:
    """The id of a pool whose engine says what its model computes, or does not."""
    return open_pool(
        target,
        engine=engine,
        groups=HYBRID,
        pool_bytes=POOL_BYTES,
        num_workers=1,
        model="made up",
        connect_timeout_s=10,
        work=work,
    ).pool_id


def test_a_service_is_told_and_shows_it() -> None:
    with sound_service() as service:
        opened_with(service.target, "talkative", TOLD)
        opened_with(service.target, "silent", None)
        shown = json.loads(kvquarry("status", "--json", "--target", service.target).stdout)
        table = kvquarry("status", "--target", service.target).stdout
        with pytest.raises(ServiceError, match="token_flops of inf"):
            opened_with(service.target, "absurd", IMPOSSIBLE)
    assert [pool["work"] for pool in shown["pools"]] == [
        {"token_flops": 5.94e9, "token_pair_flops": 163_840},
        {"token_flops": 0, "token_pair_flops": 0},
    ]
    assert table.count("  work      5.94 GFLOP a token") == table.count("  work ") == 1


@pytest.mark.parametrize(("told", "weighed"), [(TOLD, TOLD), (None, TOKENS)])
def test_a_pool_of_the_same_process_is_told_like_any_other(
    told: Work | None, weighed: Work
) -> None:
    ledger = ledger_of(opened_with("inproc:", "engine", told))
    assert isinstance(ledger, InprocLedger)
    assert ledger.pool.store.cache.work == weighed


def test_an_impossible_amount_is_refused_in_the_same_process_too() -> None:
    with pytest.raises(UsageError, match="token_flops of inf"):
        opened_with("inproc:", "engine", IMPOSSIBLE)
