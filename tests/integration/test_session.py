"""Operations reach the service once and in order, whatever breaks on the way."""

import json
import logging
import random
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest

from kvquarry_client.channel import open_channel
from kvquarry_client.engine import ledger_of, open_pool
from kvquarry_client.errors import MessageTooLarge, PoolLost, ServiceError, ServiceUnavailable
from kvquarry_client.inproc import open_inproc, register_inproc_worker
from kvquarry_client.ledger import Ledger
from kvquarry_client.registration import WorkerMemory, register_worker
from kvquarry_client.scheduling import Allocation, ShadowSettings
from kvquarry_client.shadow import Shadow
from kvquarry_client.target import parse_target
from kvquarry_core.checkpoints import Checkpoints
from kvquarry_core.errors import UsageError
from kvquarry_core.ids import BlockId, GroupId, Handle
from kvquarry_core.plan import Plan, make_plan
from kvquarry_core.retention import Boundaries, Landmarks
from kvquarry_core.worker_layout import planned_views
from tests.client.pools import BLOCK, CHUNK, HYBRID, prompt
from tests.contract.kvquarry_command import kvquarry
from tests.contract.running_service import RunningService, running_service, sound_service
from tests.integration.opening import POOL_BYTES, opened
from tests.integration.proxy import Link


@pytest.fixture(scope="module")
def service() -> Iterator[RunningService]:
    with sound_service("--lease-seconds", "5") as service:
        yield service


def shadow_over(ledger: Ledger, plan: Plan, *, ahead_tokens: int = 0) -> Shadow:
    settings = ShadowSettings(
        max_grant_tokens=CHUNK,
        lookahead_tokens=0,
        must_fit_whole=True,
        keep_free_blocks=(),
        checkpoints=Checkpoints(Boundaries(), BLOCK),
        check_steps=1,
        ahead_tokens=ahead_tokens,
    )
    return Shadow(plan, ledger, settings)


def run_script(shadow: Shadow, seed: int, num_steps: int = 60) -> list[object]:
    """A few requests come, decode and go; returns all that the shadow ever answered."""
    rng = random.Random(seed)
    lengths: dict[str, int] = {}
    answers: list[object] = []
    for step in range(num_steps):
        shadow.begin_step()
        for name in list(lengths):
            lengths[name] += 1
            request = shadow.find(name)
            assert request is not None
            length = lengths[name]
            if rng.random() < 0.1 or not shadow.allocate(
                request, Allocation(length, length, length - 1)
            ):
                shadow.free(name)
                del lengths[name]
                continue
            shadow.commit(name, prompt(name, length, "same").hashes, length, Landmarks((length,)))
            answers.append(request.new_block_ids())
        name, length = f"r{step}", rng.randrange(2, 60)
        waiting = prompt(name, length, rng.choice(["same", name]))
        lookup = shadow.lookup(waiting)
        allocation = Allocation(length, length, lookup.hit_tokens)
        answers.append(lookup)
        if rng.random() < 0.7 and shadow.allocate_first(waiting, allocation, keep_free=True):
            shadow.commit(name, waiting.hashes, length, Landmarks((length,)))
            lengths[name] = length
        answers.append(shadow.take_blocks_to_zero())
        shadow.ledger.flush()
    for name in lengths:
        shadow.free(name)
    shadow.begin_step()
    return answers


def inproc_answers(seed: int) -> list[object]:
    plan = make_plan(HYBRID, POOL_BYTES)
    pool_id, ledger = open_inproc(plan)
    register_inproc_worker(pool_id, list(planned_views(plan)), plan.pool_bytes)
    return run_script(shadow_over(ledger, plan), seed)


def status(service: RunningService, engine: str) -> dict[str, object]:
    answer = json.loads(kvquarry("status", "--target", service.target, "--json").stdout)
    return next(pool for pool in answer["pools"] if pool["attachments"][0]["engine"] == engine)


@pytest.mark.parametrize("seed", range(3))
def test_the_wire_changes_no_answer(service: RunningService, seed: int) -> None:
    ledger, plan = opened(service.target, f"same-{seed}")
    assert run_script(shadow_over(ledger, plan), seed) == inproc_answers(seed)
    ledger.close()


@pytest.mark.parametrize("seed", range(4))
def test_a_link_cut_at_any_point_changes_no_answer(
    service: RunningService, link: Link, seed: int
) -> None:
    engine = f"cut-{seed}"
    ledger, plan = opened(f"unix:{link.front}", engine)
    link.bytes_until_cut = 200 + 611 * seed
    assert run_script(shadow_over(ledger, plan), seed) == inproc_answers(seed)
    assert link.bytes_until_cut is None, "the link was never cut"
    ledger.flush()
    ledger.reset_cache()
    assert status(service, engine)["request_count"] == 0
    ledger.close()


def test_books_that_differ_are_refused_with_the_next_answer(service: RunningService) -> None:
    ledger, plan = opened(service.target, "differs")
    shadow_over(ledger, plan).begin_step()
    ledger.compare_books(b"other books")
    with pytest.raises(ServiceError, match="a bug") as caught:
        ledger.reset_cache()
    assert caught.value.reason == "BOOKS_DIFFER"
    ledger.close()


def test_what_was_only_sent_is_not_lost_when_the_link_breaks(link: Link) -> None:
    ledger, plan = opened(f"unix:{link.front}", "sent")
    shadow = shadow_over(ledger, plan)
    waiting = prompt("a", 20)
    shadow.lookup(waiting)
    shadow.allocate_first(waiting, Allocation(20, 20, 0), keep_free=False)
    shadow.ledger.flush()
    link.cut()
    shadow.free("a")
    assert shadow.reset_cache(), "the free arrived before the reset"
    ledger.close()


def test_a_mistake_in_a_batch_is_a_typed_error(service: RunningService) -> None:
    ledger, _ = opened(service.target, "mistaken")
    ledger.free(Handle(77))
    with pytest.raises(ServiceError) as caught:
        ledger.reset_cache()
    assert caught.value.reason == "UNKNOWN_REQUEST"
    ledger.close()


def test_answers_nobody_waits_for_are_read_now_and_then(service: RunningService) -> None:
    ledger, _ = opened(service.target, "chatty")
    for _ in range(300):
        ledger.begin_step()
        ledger.flush()
    assert ledger.num_exchanges == 0
    assert ledger.reset_cache()
    ledger.close()


@pytest.mark.parametrize("is_remote", [True, False], ids=["unix", "inproc"])
def test_evictions_flow_back_to_who_wants_to_hear_them(
    service: RunningService, *, is_remote: bool
) -> None:
    target = service.target if is_remote else "inproc:"
    hearing, plan = opened(target, "evicting")
    deaf, _ = opened(target, "evicting-unheard", hears_evictions=False)
    for ledger in (hearing, deaf):
        evict_some(shadow_over(ledger, plan))
    evicted = {eviction.block_hash for eviction in hearing.take_evictions()}
    assert b"r0/0" in evicted
    assert hearing.take_evictions() == []
    assert deaf.take_evictions() == []
    hearing.close()
    deaf.close()


def evict_some(shadow: Shadow) -> None:
    """More prompts than the pool has room for, one after the other."""
    for index in range(12):
        waiting = prompt(f"r{index}", 40)
        shadow.lookup(waiting)
        assert shadow.allocate_first(waiting, Allocation(40, 40, 0), keep_free=False)
        shadow.commit(waiting.request_id, waiting.hashes, 40, Landmarks((40,)))
        shadow.free(waiting.request_id)
        shadow.begin_step()


def test_a_service_that_comes_back_without_the_pool_is_named(tmp_path: Path) -> None:
    with running_service() as first:
        front = tmp_path / "front"
        link = Link(front, Path(first.target.removeprefix("unix:")))
        ledger, _ = opened(f"unix:{front}", "orphan")
    link.close()
    front.unlink()
    with running_service() as second:
        link = Link(front, Path(second.target.removeprefix("unix:")))
        with pytest.raises(PoolLost, match="restart the engine"):
            ledger.reset_cache()
        link.close()
    ledger.close()


def test_an_engine_waits_for_a_service_and_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    target = f"unix:{tmp_path}/nobody"
    started = time.monotonic()
    with caplog.at_level(logging.WARNING), pytest.raises(ServiceUnavailable, match="nobody"):
        opened(target, "early", timeout_s=1)
    assert time.monotonic() - started >= 1
    assert "waiting for kvquarry" in caplog.text


def test_a_frozen_service_is_waited_for(service: RunningService) -> None:
    ledger, _ = opened(service.target, "patient")
    service.signal(signal.SIGSTOP)
    ledger.begin_step()
    ledger.flush()
    service.signal(signal.SIGCONT)
    assert ledger.reset_cache()
    ledger.close()


def test_a_worker_with_other_tensors_is_refused_and_nothing_is_handed_out(
    service: RunningService,
) -> None:
    pool = open_pool(
        service.target,
        engine="other tensors".replace(" ", "-"),
        groups=HYBRID,
        pool_bytes=POOL_BYTES,
        num_workers=2,
        model="made up",
        connect_timeout_s=5,
    )
    views = tuple(planned_views(pool.plan))
    target = parse_target(service.target)

    def register(rank: int, digest: bytes) -> None:
        memory = WorkerMemory(rank, 2, "none", pool.plan.pool_bytes, views, digest)
        register_worker(
            target,
            pool_id=pool.pool_id,
            incarnation=pool.incarnation,
            memory=memory,
            timeout_s=5,
        )

    register(0, b"one")
    with pytest.raises(ServiceError) as caught:
        register(1, b"another")
    assert caught.value.reason == "WORKER_MISMATCH"
    shadow = shadow_over(ledger_of(pool.pool_id), pool.plan)
    with pytest.raises(ServiceError) as caught:
        shadow.lookup(prompt("a", 10))
    assert caught.value.reason == "WORKERS_NOT_REGISTERED"
    ledger_of(pool.pool_id).close()


def test_inproc_hands_out_nothing_before_its_worker_has_registered() -> None:
    plan = make_plan(HYBRID, POOL_BYTES)
    pool_id, ledger = open_inproc(plan)
    with pytest.raises(UsageError, match="registered"):
        shadow_over(ledger, plan).lookup(prompt("a", 10))
    wrong = [*planned_views(plan)][:-1]
    with pytest.raises(UsageError, match="bytes"):
        register_inproc_worker(pool_id, wrong, plan.pool_bytes - 1)


def test_a_message_over_the_services_cap_is_named() -> None:
    with running_service("--max-message-bytes", "65536") as service:
        ledger, _ = opened(service.target, "talkative")
        ledger.forget(GroupId(0), [BlockId(1)] * 100_000)
        with pytest.raises(MessageTooLarge, match="--max-message-bytes"):
            ledger.reset_cache()
        ledger.close()


def test_a_stale_incarnation_is_fenced_and_the_newer_one_is_warned(
    service: RunningService, caplog: pytest.LogCaptureFixture
) -> None:
    ledger, plan = opened(service.target, "twice")
    assert caplog.text == ""
    newer, _ = opened(service.target, "twice")
    assert "engine twice has taken the pool of an attached engine of its name" in caplog.text
    with pytest.raises(ServiceError) as caught:
        shadow_over(ledger, plan).lookup(prompt("a", 10))
    assert caught.value.reason == "STALE_INCARNATION"
    assert newer.reset_cache()
    ledger.close()
    newer.close()


def test_a_channel_is_not_shared_between_engines(service: RunningService) -> None:
    one, other = (open_channel(parse_target(service.target)) for _ in range(2))
    assert one is not other
    one.close()
    with pytest.raises(ValueError, match="closed"):
        one.unary_unary("/x/y", None, None)(b"")
    grpc.channel_ready_future(other).result(5)
    other.close()


def test_groups_are_numbered_as_opened(service: RunningService) -> None:
    ledger, plan = opened(service.target, "groups")
    ledger.forget(GroupId(len(plan.groups)), [])
    with pytest.raises(ServiceError) as caught:
        ledger.reset_cache()
    assert caught.value.reason == "UNKNOWN_GROUP"
    ledger.close()
