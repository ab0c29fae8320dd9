"""An engine session behaves as an engine does, and leaves nothing behind."""

import pytest

from kvquarry_client.inproc import InprocLedger, open_inproc, register_inproc_worker
from kvquarry_client.ledger import Ledger
from kvquarry_client.shadow import Shadow
from kvquarry_core.ids import Handle
from kvquarry_core.integrity import check_integrity
from kvquarry_core.plan import Plan, make_plan
from kvquarry_core.usage import usage_of
from kvquarry_core.worker_layout import planned_views
from loadtest.engine_session import (
    GROUPS,
    POOL_BYTES,
    EngineSession,
    PoolNotEmpty,
    shadow_settings,
)
from loadtest.timed_ledger import TimedLedger
from loadtest.traffic import Traffic


def open_ledger(pool_bytes: int) -> InprocLedger:
    plan = make_plan(GROUPS, pool_bytes)
    pool_id, ledger = open_inproc(plan)
    register_inproc_worker(pool_id, list(planned_views(plan)), plan.pool_bytes)
    return ledger


def session_over(ledger: Ledger, plan: Plan, seed: int = 1) -> EngineSession:
    shadow = Shadow(plan, ledger, shadow_settings(plan))
    return EngineSession(shadow, Traffic(seed, plan.hash_tokens).requests())


# A smaller pool holds fewer requests than want to run: some are preempted.
@pytest.mark.parametrize("pool_bytes", [POOL_BYTES, POOL_BYTES // 2])
def test_requests_hit_finish_and_leave_no_block_used(pool_bytes: int) -> None:
    ledger = open_ledger(pool_bytes)
    session = session_over(ledger, ledger.pool.plan)
    for step in range(400):
        session.step()
        if step % 50 == 0:
            check_integrity(ledger.pool)
    totals = ledger.pool.totals
    assert session.num_finished > 20
    assert session.num_preempted > 0 or pool_bytes == POOL_BYTES
    assert 0 < totals.hit_tokens < totals.query_tokens
    session.finish()
    check_integrity(ledger.pool)
    assert usage_of(ledger.pool).used_bytes == 0


class LosesAFree(InprocLedger):
    """A ledger in which the first free never arrives."""

    has_lost = False

    def free(self, handle: Handle) -> None:
        if self.has_lost:
            super().free(handle)
        self.has_lost = True


def test_a_lost_operation_is_told_at_the_end() -> None:
    ledger = LosesAFree(make_plan(GROUPS, POOL_BYTES))
    ledger.has_worker = True
    session = session_over(ledger, ledger.pool.plan)
    session.step()
    with pytest.raises(PoolNotEmpty):
        session.finish()


def test_every_exchange_is_timed_once_and_says_whether_it_was_refused() -> None:
    seen: list[str] = []

    def observe(name: str, seconds: float, error: Exception | None) -> None:
        assert seconds > 0
        assert error is None
        seen.append(name)

    inner = open_ledger(POOL_BYTES // 2)
    ledger = TimedLedger(inner, observe)
    session = session_over(ledger, inner.pool.plan)
    for _ in range(100):
        session.step()
    assert len(seen) == ledger.num_exchanges == inner.num_exchanges
    refused = sum(name.endswith(" (refused)") for name in seen)
    assert 0 < refused <= inner.pool.totals.refusals, "an exchange may ask for several things"
    assert set(seen) <= {"admit", "admit (refused)", "grow", "grow (refused)"}
