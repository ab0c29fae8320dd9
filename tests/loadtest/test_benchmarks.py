"""The benchmarks run and print what they promise; how fast they were is not judged here."""

import json
import subprocess
import sys
from typing import Any

import pytest

from kvquarry.v1alpha import pool_pb2
from loadtest.benchmarks.effects import EffectCounter
from loadtest.benchmarks.mixes import DECODE_HEAVY
from loadtest.benchmarks.recording import record, recording_of
from loadtest.benchmarks.replay import Pace, replay
from loadtest.benchmarks.samples import percentile, spread
from loadtest.benchmarks.service_process import own_service
from loadtest.benchmarks.tables import table
from loadtest.benchmarks.tape import Said
from tests.architecture.repository import ROOT

# A run takes a few seconds; importing vLLM on a busy machine takes more.
TIMEOUT_S = 100


def run_quickly(module: str) -> dict[str, Any]:
    command = [sys.executable, "-m", module, "--quick", "--json"]
    run = subprocess.run(
        command, cwd=ROOT, check=False, capture_output=True, text=True, timeout=TIMEOUT_S
    )
    assert run.returncode == 0, run.stderr
    document: dict[str, Any] = json.loads(run.stdout)
    return document


@pytest.mark.vllm
def test_the_hot_path_compares_three_sides_in_every_phase() -> None:
    document = run_quickly("loadtest.hot_path")
    assert document["benchmark"] == "hot_path"
    results = document["results"]
    for shape in ("hybrid", "attention"):
        found = {(one["scenario"], one["phase"]) for one in results if one["shape"] == shape}
        assert {("decode 1", "step"), ("decode 8", "step")} <= found
        assert ("decode 8 in lock-step", "step with new blocks") in found
        for scenario in ("miss 500", "hit 500", "miss 4,000", "hit 4,000"):
            phases = {phase for name, phase in found if name == scenario}
            assert phases == {"lookup", "admission", "prefill", "free", "life"}
    for one in results:
        assert one["sides"], one
        for figures in one["sides"].values():
            assert 0 < figures["p50_us"] <= figures["p99_us"]
            assert len(figures["ratio"]) in (0, 3)
    admission = next(
        one for one in results if (one["scenario"], one["phase"]) == ("hit 4,000", "admission")
    )
    assert set(admission["sides"]) == {"stock", "inproc", "unix"}
    exchanges = {name: figures["exchanges"] for name, figures in admission["sides"].items()}
    assert exchanges == {"stock": 0, "inproc": 1, "unix": 1}
    assert admission["sides"]["unix"]["service_cpu_us"] > 0


def test_the_service_is_loaded_by_engines_whose_answers_are_the_recorded_ones() -> None:
    document = run_quickly("loadtest.service")
    assert document["benchmark"] == "service"
    cases = [(one["mix"], one["num_engines"]) for one in document["saturation"]]
    mixes = ("decode-heavy", "prefill-heavy")
    assert cases == [(mix, count) for mix in mixes for count in (1, 2)]
    for one in document["saturation"]:
        assert one["mismatches"] == 0
        assert one["effects_per_s"] > 0
        assert len(one["effects_per_service_cpu_s"]) == 3
        assert 0 < one["exchange_p50_us"] <= one["exchange_p99_us"]
    for recording in document["recordings"]:
        assert recording["source"] == "made up"
        assert set(recording["effects"]) == {"taken", "committed", "dropped", "freed"}
    for one in document["fairness"]:
        assert one["mismatches"] == 0
        assert list(one["cases"]) == ["alone", "burner", "calm", "flood", "flood at nice 19"]
        assert one["cases"]["alone"]["p99_to_alone"] == [1, 1, 1]
        for figures in one["cases"].values():
            assert figures["admissions"] > 0
            assert 0 < figures["p50_us"] <= figures["p99_us"]

    for one in document["own_time"]:
        floods = one["floods"]
        assert list(floods) == ["0", "1", "3"]
        assert floods["0"]["p99_to_alone"] == 1
        assert all(0 < figures["p50_us"] <= figures["p99_us"] for figures in floods.values())


def test_an_answer_that_differs_from_the_recorded_one_is_counted() -> None:
    with own_service() as service:
        recording = record(service.target, DECODE_HEAVY, num_steps=5)
    with own_service() as other_life:
        # Every response carries the boot id, so a restarted service answers differently.
        tally = replay(other_life.target, "engine", recording, Pace(4), run_s=0.2)
    assert tally.num_messages > 0
    assert tally.num_mismatches == len(tally.exchanges_s)


def test_what_was_never_answered_is_left_out_of_a_recording() -> None:
    step = pool_pb2.Operation(begin_step=pool_pb2.BeginStep())
    hello = pool_pb2.AttachRequest(hello=pool_pb2.Hello(pool_id="p"))
    batches = [
        pool_pb2.AttachRequest(batch=pool_pb2.Batch(number=n, operations=[step], quiet=n != 2))
        for n in (1, 2, 3)
    ]
    welcome = pool_pb2.AttachResponse(welcome=pool_pb2.Welcome())
    answer = pool_pb2.AttachResponse(result=pool_pb2.BatchResult(number=2))
    said = {
        Said.OPENING: [b"first try", b"second try"],
        Said.REQUEST: [one.SerializeToString() for one in (hello, *batches)],
        Said.RESPONSE: [one.SerializeToString() for one in (welcome, answer)],
    }
    recording = recording_of("mix", "somebody", said)
    assert recording.opening == b"second try"
    assert [one.request for one in recording.messages] == said[Said.REQUEST][1:3]
    assert [one.response for one in recording.messages] == [None, said[Said.RESPONSE][1]]


def test_every_block_taken_is_freed_or_dropped_when_all_requests_are_over() -> None:
    with own_service() as service:
        recording = record(service.target, DECODE_HEAVY, num_steps=40)
    effects = recording.effects
    # What was hit was not taken, but is given up like the rest.
    assert effects["freed"] + effects["dropped"] >= effects["taken"] > 0
    assert effects["committed"] > 0


def test_columns_count_by_block_and_a_free_counts_what_was_still_held() -> None:
    counter = EffectCounter()
    batch = pool_pb2.Batch(
        operations=[
            pool_pb2.Operation(
                take=pool_pb2.Take(handles=[7, 7], groups=[0, 1], block_counts=[3, 2])
            ),
            pool_pb2.Operation(
                drop=pool_pb2.Drop(handles=[7], groups=[0], block_counts=[2], blocks=[11, 12])
            ),
            pool_pb2.Operation(free=pool_pb2.Free(handles=[7])),
            pool_pb2.Operation(free=pool_pb2.Free(handles=[8])),
        ]
    )
    assert counter.add(batch, None) == 5 + 2 + 3
    assert counter.totals == {"taken": 5, "committed": 0, "dropped": 2, "freed": 3}


def test_a_percentile_is_a_sample_and_a_spread_has_its_ends() -> None:
    samples = [float(number) for number in range(100, 0, -1)]
    assert percentile(samples, 0.5) == 50
    assert percentile(samples, 0.99) == 99
    assert percentile([4.0], 0.01) == 4
    assert spread([3.0, 1.0, 2.0]).rounded() == [2.0, 1.0, 3.0]


def test_a_table_aligns_numbers_to_the_right_and_names_to_the_left() -> None:
    text = table("title", ("name", "count"), [["a", 12_345], ["long name", 6]])
    assert text.splitlines() == [
        "title",
        "name        count",
        "---------  ------",
        "a          12,345",
        "long name       6",
    ]
