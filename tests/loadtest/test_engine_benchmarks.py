"""The benchmarks of real engines run and measure what they say; how fast is not judged here."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from loadtest.benchmarks.replay import Pace, replay
from loadtest.benchmarks.service_process import own_service
from loadtest.engine import prefill_heavy
from loadtest.engine_recording import record_engine
from tests.architecture.repository import ROOT

TIMEOUT_S = 280

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(300)]


def run_quick(benchmark: str, *flags: str) -> dict[str, Any]:
    command = [sys.executable, "-m", f"loadtest.{benchmark}", "--quick", "--json", *flags]
    run = subprocess.run(
        command, cwd=ROOT, check=False, capture_output=True, text=True, timeout=TIMEOUT_S
    )
    assert run.returncode == 0, run.stderr
    measured: dict[str, Any] = json.loads(run.stdout)
    return measured


def test_decode_steps_rarely_wait_for_the_pool_and_short_prefixes_hit_on_kvquarry_alone() -> None:
    arms = run_quick("engine")["arms"]
    assert list(arms) == ["stock", "unix:", "inproc:"]
    for name, (run,) in arms.items():
        for figures in run.values():
            times = [value for field, value in figures.items() if field.endswith("_ms")]
            assert all(value > 0 for value in times), figures
            assert figures["output_tokens_per_s"] > 0
            assert 0 < figures["num_decode_steps"] < figures["num_steps"]
        assert run["prefill-heavy"]["num_cached_tokens"] == 0
        found = run["short shared prefixes"]["num_cached_tokens"]
        assert (found > 0) == (name != "stock")
        decode = run["decode-heavy"]
        assert (decode["exchanges_per_step"] > 0) == (name != "stock")
        assert decode["quiet_decode_step_share"] > 0.5


def test_each_prompt_hits_up_to_its_last_block_and_answers_the_same(tmp_path: Path) -> None:
    plot = tmp_path / "hits.svg"
    measured = run_quick("prefill_hits", "--plot", str(plot))
    for name, block_tokens in (("stock", 1056), ("kvquarry 32", 32)):
        (run,) = measured["arms"][name]
        assert run["block_tokens"] == block_tokens
        for sending in run["sendings"]:
            longest = (sending["prompt_tokens"] - 1) // block_tokens * block_tokens
            assert sending["hit_tokens"] == longest
            assert sending["num_equal"] == sending["num_later"]
            assert min(sending["first_s"], sending["later_s"]) > 0
    assert measured["outputs_as_first_of_stock"] == {"stock": 1.0, "kvquarry 32": 1.0}
    assert measured["speedup_later"]["kvquarry 32"]["median"] > 0
    assert plot.read_text().count("<polyline") == 4


@pytest.mark.nightly
def test_what_a_real_engine_said_can_be_said_again() -> None:
    with own_service() as service:
        recording = record_engine(service.target, "prefill-heavy", prefill_heavy(8))
        tally = replay(service.target, "engine", recording, Pace(4), run_s=0.2)
    assert sum(message.is_admission for message in recording.messages) >= 8
    assert recording.source == "vLLM"
    assert tally.num_messages >= len(recording.messages)
    assert tally.num_effects >= sum(recording.effects.values()) > 0
    assert tally.num_mismatches == 0
