"""Engines that are killed, come too early, or share a service."""

import re
import time
from pathlib import Path

import pytest

from kvquarry_vllm.demo.engine import EngineFailure, EngineRun
from kvquarry_vllm.demo.job import EngineJob
from kvquarry_vllm.demo.jobs import HITS_BLOCK_TOKENS, hits_job, kvquarry_env
from kvquarry_vllm.demo.service import ServiceProcess
from tests.e2e.conftest import LEASE_S
from tests.e2e.harness import ENGINE_TIMEOUT_S, EXIT_TIMEOUT_S, Engines, pools_of

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(240)]


def short_job(model: Path, target: str, engine: str, **env: str) -> EngineJob:
    """One prompt of 300 tokens, sent twice."""
    job = hits_job(model, kvquarry_env(target, engine) | env)
    return EngineJob(job.model, job.options, job.waves[:2], job.env)


def hits(run: EngineRun) -> list[int]:
    result = run.wait_for_result(timeout_s=ENGINE_TIMEOUT_S)
    assert result.served_by_kvquarry
    assert result.block_size_tokens == HITS_BLOCK_TOKENS
    return [request.num_cached_tokens for request in result.requests]


def test_a_killed_engine_starts_again_under_its_name_at_once_and_its_pool_goes(
    engines: Engines, service: str, hybrid: Path
) -> None:
    job = short_job(hybrid, service, "killed")
    with engines.started(job) as first:
        assert hits(first) == [0, 288]
        (pool_of_first,) = pools_of(service, "killed")
        first.kill()
    with engines.started(job) as second:
        assert hits(second) == [0, 288], "the second life found the first one's blocks"
        (pool_of_second,) = pools_of(service, "killed")
        second.kill()
    incarnations = [p.attachments[0].incarnation for p in (pool_of_first, pool_of_second)]
    assert incarnations[0] < incarnations[1]
    assert pool_of_first.pool_id != pool_of_second.pool_id
    assert pool_goes_within(LEASE_S + 5.0, service, "killed")


def pool_goes_within(seconds: float, target: str, engine: str) -> bool:
    deadline = time.monotonic() + seconds
    while pools_of(target, engine):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.2)
    return True


def test_an_engine_waits_for_a_late_service_and_says_so_every_few_seconds(
    engines: Engines, hybrid: Path, socket_folder: Path, tmp_path: Path
) -> None:
    late = ServiceProcess(
        socket_folder / "late.sock",
        log=tmp_path / "service.log",
        options=("--metrics-listen", "off"),
    )
    with engines.started(short_job(hybrid, late.target, "early")) as run:
        wait_for_lines(run, rf"kvquarry.*{re.escape(late.target)}", count=2)
        with late:
            assert hits(run) == [0, 288]
            assert run.wait_for_exit(timeout_s=EXIT_TIMEOUT_S) == 0


def wait_for_lines(run: EngineRun, pattern: str, *, count: int) -> None:
    """Wait until the engine has logged so many lines that match."""
    deadline = time.monotonic() + ENGINE_TIMEOUT_S
    while len(re.findall(pattern, run.log.read_text(errors="replace"))) < count:
        assert time.monotonic() < deadline, run.log_tail()
        time.sleep(0.2)


def test_an_engine_gives_up_with_an_error_that_names_the_target(
    engines: Engines, hybrid: Path, socket_folder: Path
) -> None:
    target = f"unix:{socket_folder / 'nobody.sock'}"
    job = short_job(hybrid, target, "alone", KVQUARRY_CONNECT_TIMEOUT_S="2")
    with engines.started(job) as run, pytest.raises(EngineFailure) as failure:
        run.wait_for_start(timeout_s=ENGINE_TIMEOUT_S)
    last_line = str(failure.value).splitlines()[-1]
    assert "ServiceUnavailable" in last_line
    assert target in last_line


def test_two_engines_on_one_service_never_see_each_others_blocks(
    engines: Engines, service: str, hybrid: Path
) -> None:
    jobs = [short_job(hybrid, service, name) for name in ("left", "right")]
    with engines.started(jobs[0]) as left, engines.started(jobs[1]) as right:
        assert hits(left) == [0, 288]
        assert hits(right) == [0, 288]
        (pool_of_left,), (pool_of_right,) = pools_of(service, "left"), pools_of(service, "right")
        assert pool_of_left.pool_id != pool_of_right.pool_id
        assert pool_of_left.counters.hit_tokens == pool_of_right.counters.hit_tokens == 288
        assert len(pool_of_left.empty_slot_counts) == 2, "the engine tells how much it has written"
        for run in (left, right):
            assert run.wait_for_exit(timeout_s=EXIT_TIMEOUT_S) == 0
    for name in ("left", "right"):
        assert pool_goes_within(LEASE_S + 5.0, service, name)
