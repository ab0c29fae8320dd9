"""Two workers, each with its own copy of the pool's layout, serve what stock serves with two."""

from pathlib import Path

import pytest

from kvquarry_vllm.demo.jobs import TIGHT_POOL_BYTES, equality_job, kvquarry_env, stock_env
from tests.e2e.harness import SEEDS, Engines, all_waves, differing, pools_of

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(300)]


def test_two_workers_serve_the_same_as_stock_with_two(
    engines: Engines, service: str, hybrid: Path
) -> None:
    waves = all_waves(SEEDS[0])[:3]
    stock = engines.run(equality_job(hybrid, stock_env(), waves, tensor_parallel_size=2))
    # Each worker holds half of every block.
    options = {"tensor_parallel_size": 2, "kv_cache_memory_bytes": TIGHT_POOL_BYTES // 2}
    job = equality_job(hybrid, kvquarry_env(service, "two-workers"), waves, **options)
    with engines.served(job) as ours:
        (pool,) = pools_of(service, "two-workers")
    assert ours.served_by_kvquarry
    assert [worker.rank for worker in pool.workers] == [0, 1]
    assert len({worker.digest for worker in pool.workers}) == 1
    assert differing(stock, ours) == []
