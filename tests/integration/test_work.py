"""What a model computes reaches whoever weighs content by it."""

import json
import math

import pytest

from kvquarry_client.engine import ledger_of
from kvquarry_client.errors import ServiceError
from kvquarry_client.inproc import InprocLedger
from kvquarry_core.errors import UsageError
from kvquarry_core.work import TOKENS, Work
from tests.contract.kvquarry_command import kvquarry
from tests.contract.running_service import sound_service
from tests.integration.opening import pool_of

TOLD = Work(5.94e9, 163_840)
IMPOSSIBLE = Work(math.inf)


def test_a_service_is_told_and_shows_it() -> None:
    with sound_service() as service:
        pool_of(service.target, "talkative", work=TOLD)
        pool_of(service.target, "silent", work=None)
        shown = json.loads(kvquarry("status", "--json", "--target", service.target).stdout)
        table = kvquarry("status", "--target", service.target).stdout
        with pytest.raises(ServiceError, match="token_flops of inf"):
            pool_of(service.target, "absurd", work=IMPOSSIBLE)
    assert [pool["work"] for pool in shown["pools"]] == [
        {"token_flops": 5.94e9, "token_pair_flops": 163_840},
        {"token_flops": 0, "token_pair_flops": 0},
    ]
    assert table.count("  work      5.94 GFLOP a token") == table.count("  work ") == 1


@pytest.mark.parametrize(("told", "weighed"), [(TOLD, TOLD), (None, TOKENS)])
def test_a_pool_of_the_same_process_is_told_like_any_other(
    told: Work | None, weighed: Work
) -> None:
    ledger = ledger_of(pool_of("inproc:", work=told).pool_id)
    assert isinstance(ledger, InprocLedger)
    assert ledger.pool.store.cache.work == weighed


def test_an_impossible_amount_is_refused_in_the_same_process_too() -> None:
    with pytest.raises(UsageError, match="token_flops of inf"):
        pool_of("inproc:", work=IMPOSSIBLE)
