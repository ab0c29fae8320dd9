"""Whatever an engine asks of its pool, the books stay right and a mistake changes nothing."""

import pytest

from kvquarry_core.errors import UsageError
from kvquarry_core.integrity import check_integrity
from kvquarry_server.application import apply_operation
from kvquarry_server.conversion.outcomes import outcome_to_wire
from kvquarry_server.operations import Batch
from tests.server.doubles import ready_attachment
from tests.server.hostile_engine import HostileEngine
from tests.server.snapshot import snapshot


@pytest.mark.parametrize("seed", range(12))
def test_a_refused_operation_changes_nothing(seed: int) -> None:
    pool = ready_attachment().pool
    engine = HostileEngine(pool, seed)
    num_refused = 0
    for _ in range(400):
        operation = engine.operation()
        before = snapshot(pool)
        try:
            apply_operation(pool, operation)
        except UsageError:
            num_refused += 1
            assert snapshot(pool) == before, operation
        check_integrity(pool)
    assert 50 < num_refused < 350


@pytest.mark.parametrize("seed", range(12, 24))
def test_every_batch_gets_an_answer_that_fits_the_wire(seed: int) -> None:
    attachment = ready_attachment()
    engine = HostileEngine(attachment.pool, seed)
    for number in range(1, 150):
        outcome = attachment.apply(Batch(number, engine.batch()))
        assert outcome_to_wire("boot", outcome).result.number == number
        check_integrity(attachment.pool)


def test_the_hostile_engine_gets_deep_into_the_pool() -> None:
    """Else the two tests above would show little."""
    num_hit_tokens = num_evictions = num_class_changes = 0
    for seed in range(24):
        pool = ready_attachment().pool
        engine = HostileEngine(pool, seed)
        for _ in range(400):
            try:
                apply_operation(pool, engine.operation())
            except UsageError:
                continue
        num_hit_tokens += pool.totals.hit_tokens
        num_evictions += sum(pool.store.num_evictions)
        num_class_changes += sum(map(sum, pool.store.slabs.num_class_changes))
    assert num_hit_tokens > 0
    assert num_evictions > 20
    assert num_class_changes > 100
