"""What the demo shows: hits at block 32 as long as the small blocks allow, and equal outputs."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(300)]

DEMO_TIMEOUT_S = 270.0


@pytest.fixture(scope="module")
def demo(hybrid: Path) -> dict[str, Any]:
    """What ``python -m kvquarry_vllm.demo --json`` prints; ``hybrid`` skips where it cannot run."""
    command = [sys.executable, "-m", "kvquarry_vllm.demo", "--json"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        output, progress = process.communicate(timeout=DEMO_TIMEOUT_S)
    finally:
        process.terminate()  # it stops what it started
        process.wait()
    assert process.returncode == 0, progress
    assert "kvquarry with --block-size 32: started" in progress
    measured: dict[str, Any] = json.loads(output)
    return measured


def test_prompts_hit_in_steps_of_the_users_block_size(demo: dict[str, Any]) -> None:
    kvquarry = demo["kvquarry"]
    assert kvquarry["block_tokens"] == 32
    assert kvquarry["resent"] == {
        "300": [0, 288, 288],
        "600": [0, 576, 576],
        "1000": [0, 992, 992],
        "1500": [0, 1472, 1472],
    }


def test_prompts_that_share_a_prefix_hit_it_from_the_third_on(demo: dict[str, Any]) -> None:
    pairs = zip(demo["kvquarry"]["shared"], (0, 0, 672, 672), strict=True)
    assert all(hit >= least for hit, least in pairs)


def test_stock_hits_in_steps_of_a_block_as_large_as_a_state(demo: dict[str, Any]) -> None:
    """The baseline is what stock vLLM does with this model, not a stock that was set up badly."""
    stock = demo["stock"]
    assert stock["block_tokens"] == 160
    assert stock["resent"] == {
        "300": [0, 160, 160],
        "600": [0, 480, 480],
        "1000": [0, 960, 960],
        "1500": [0, 1440, 1440],
    }
    assert stock["shared"] == [0, 640, 640, 640]


def test_the_demo_ends_with_equal_outputs(demo: dict[str, Any]) -> None:
    assert demo["outputs_equal"] is True
    assert demo["equality"]["num_requests"] >= 20
    assert demo["equality"]["num_class_changes"] > 0
