"""`kvquarry status` and /metrics are two views of the same figures."""

import json
import re
import shutil
import subprocess
from typing import Any

import grpc
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.contract.kvquarry_command import kvquarry
from tests.contract.running_service import RunningService
from tests.contract.wire_engine import (
    ATTENTION,
    STATES,
    admit,
    begin_step,
    commit,
    free,
    pin,
    ready_engine,
    take,
)


def series(service: RunningService, engine: str) -> dict[str, float]:
    """The series of one engine, by name and the labels beside it."""
    found = {}
    for family in text_string_to_metric_families(service.metrics()):
        for sample in family.samples:
            if sample.labels.get("engine") == engine:
                labels = [value for key, value in sorted(sample.labels.items()) if key != "engine"]
                found["/".join((sample.name.removeprefix("kvquarry_"), *labels))] = sample.value
    return found


def expected_series(pool: dict[str, Any]) -> dict[str, float]:
    """What a pool's status says, as the series of the metrics."""
    plan, usage, counters = pool["plan"], pool["usage"], pool["counters"]
    (attachment,) = pool["attachments"]
    figures: dict[str, float] = {
        "unassigned_slabs": usage["unassigned_slab_count"],
        "pool_bytes": plan["pool_size_bytes"],
        "pool_usable_bytes": usage["usable_size_bytes"],
        "pool_used_bytes": usage["used_size_bytes"],
        "pool_written_bytes": pool["written_size_bytes"],
        "requests": pool["request_count"],
        "attached": attachment["attached"],
        "incarnation": attachment["incarnation"],
        "workers_registered": len(pool["workers"]),
        "workers_expected": pool["worker_count"],
        "query_tokens_total": counters["query_tokens"],
        "hit_tokens_total": counters["hit_tokens"],
        "miss_tokens_total": counters["query_tokens"] - counters["hit_tokens"],
        "admissions_total": counters["admission_count"],
        "refusals_total": counters["refusal_count"],
        "commits_total": counters["commit_count"],
        "pins": pool["pin_count"],
        "pinned_bytes": pool["pinned_size_bytes"],
        "pin_cap_bytes": pool["pin_cap_size_bytes"],
        "pins_made_total": counters["pin_count"],
        "pins_refused_total": counters["refused_pin_count"],
        "pins_broken_total": counters["broken_pin_count"],
    }
    for index, geometry in enumerate(plan["size_classes"]):
        blocks = {
            state: usage["size_classes"][index][f"{state}_block_count"]
            for state in ("free", "cached", "active", "granted", "null")
        }
        for state, count in blocks.items():
            figures[f"blocks/{index}/{state}"] = count
        figures[f"empty_slots/{index}"] = pool["empty_slot_counts"][index]
        figures[f"slabs/{index}"] = sum(blocks.values()) // geometry["blocks_per_slab"]
        figures[f"block_bytes/{index}"] = geometry["stride_bytes"] * plan["region_count"]
        figures[f"evictions_total/{index}"] = counters["eviction_counts"][index]
        figures[f"moves_total/{index}"] = counters["move_counts"][index]
    for change in counters["class_changes"]:
        name = f"slab_class_changes_total/{change['from_class']}/{change['to_class']}"
        figures[name] = change["count"]
    return figures


def test_status_and_metrics_agree_on_every_figure(
    service: RunningService, channel: grpc.Channel, name: str
) -> None:
    _, stream = ready_engine(channel, name)
    prompt = [b"0-4", b"4-8"]
    grant = stream.exchange(admit(1, 10, prompt)).answers[0].admission.grant
    blocks = list(grant.blocks[ATTENTION].blocks)
    stream.exchange(
        take(1, ATTENTION, 3),
        take(1, STATES, 1),
        *(commit(1, 0, prompt[index], blocks[index]) for index in range(2)),
        commit(1, 1, prompt[1], grant.blocks[STATES].blocks[0]),
        free(1),
        begin_step(),
        pin("p", prompt),
        pin("q", [b"nothing"]),
        admit(2, 10, prompt),
        take(2, ATTENTION, 1),
    )
    refused = admit(3, 4)
    refused.admit.must_fit_tokens = 1 << 20
    stream.exchange(refused, admit(4, 4 * 140), empty_slots=[3, 8])

    answer = kvquarry("status", "--json", "--target", service.target)
    assert answer.returncode == 0, answer.stderr
    status = json.loads(answer.stdout)
    (pool,) = (one for one in status["pools"] if one["attachments"][0]["engine"] == name)
    expected = expected_series(pool)
    assert series(service, name) == expected
    for figure in (
        "query_tokens_total",
        "hit_tokens_total",
        "miss_tokens_total",
        "refusals_total",
        "commits_total",
        "pins",
        "pinned_bytes",
        "pins_refused_total",
        "pool_written_bytes",
        "empty_slots/0",
        "empty_slots/1",
    ):
        assert expected[figure] > 0, figure


def test_an_idle_engine_has_no_active_block_in_any_figure(
    service: RunningService, channel: grpc.Channel, name: str
) -> None:
    _, stream = ready_engine(channel, name)
    stream.exchange(begin_step())
    answer = kvquarry("status", "--json", "--target", service.target)
    (pool,) = (
        one for one in json.loads(answer.stdout)["pools"] if one["attachments"][0]["engine"] == name
    )
    first, *others = pool["usage"]["size_classes"]
    assert first["null_block_count"] == pool["null_block_count"] > 0
    assert [one["active_block_count"] for one in (first, *others)] == [0] * (1 + len(others))
    assert [one["null_block_count"] for one in others] == [0] * len(others)
    assert pool["usage"]["used_size_bytes"] == 0
    of_metrics = series(service, name)
    assert of_metrics["blocks/0/active"] == 0
    assert of_metrics["blocks/0/null"] == first["null_block_count"]


def test_errors_are_counted_by_method_and_reason(
    service: RunningService, channel: grpc.Channel, name: str
) -> None:
    def count(method: str, reason: str) -> int:
        pattern = f'kvquarry_rpc_errors_total{{method="{method}",reason="{reason}"}} (.+)'
        match = re.search(pattern, service.metrics())
        return int(float(match[1])) if match else 0

    engine, stream = ready_engine(channel, name)
    before = count("Attach", "UNKNOWN_REQUEST"), count("ClosePool", "UNKNOWN_POOL")
    stream.exchange(free(77))
    engine.close()
    with pytest.raises(grpc.RpcError):
        engine.close()
    after = count("Attach", "UNKNOWN_REQUEST"), count("ClosePool", "UNKNOWN_POOL")
    assert after == (before[0] + 1, before[1] + 1)


def test_batches_are_timed(service: RunningService, channel: grpc.Channel, name: str) -> None:
    def num_batches() -> float:
        match = re.search(r"kvquarry_batch_seconds_count (.+)", service.metrics())
        assert match is not None
        return float(match[1])

    _, stream = ready_engine(channel, name)
    before = num_batches()
    for _ in range(5):
        stream.exchange(begin_step())
    assert num_batches() == before + 5


def test_the_metrics_pass_promtool(
    service: RunningService, channel: grpc.Channel, name: str
) -> None:
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is not installed")
    _engine, _stream = ready_engine(channel, name)
    lint = subprocess.run(
        [promtool, "check", "metrics"],
        input=service.metrics(),
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )
    # What it says of the metrics of the metrics library itself is not ours.
    assert [line for line in lint.stderr.splitlines() if line.startswith("kvquarry")] == []


def test_status_is_a_table_for_people(
    service: RunningService, channel: grpc.Channel, name: str
) -> None:
    _engine, _stream = ready_engine(channel, name)
    by_flag = kvquarry("status", "--target", service.target)
    by_variable = kvquarry("status", KVQUARRY_TARGET=service.target)
    for answer in (by_flag, by_variable):
        assert answer.returncode == 0, answer.stderr
        assert f"{name}, incarnation 1, attached" in answer.stdout
