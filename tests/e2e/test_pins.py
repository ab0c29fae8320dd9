"""Pins and priorities as a user of vLLM's OpenAI server has them."""

import random
import subprocess
import sys
from pathlib import Path

import pytest

from kvquarry_vllm.demo.checkpoint import VOCAB_SIZE
from kvquarry_vllm.demo.jobs import ROOMY_POOL_BYTES, kvquarry_env
from kvquarry_vllm.demo.tokenizer import text_of
from tests.e2e.harness import pools_of
from tests.e2e.http_server import OpenAIServer

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(300), pytest.mark.nightly]

OPTIONS = (
    *("--block-size", "32"),
    "--enforce-eager",
    "--enable-prompt-tokens-details",
    *("--kv-cache-memory-bytes", str(ROOMY_POOL_BYTES // 2)),
    *("--max-model-len", "1024"),
)


def prompt(seed: int, num_tokens: int = 300) -> str:
    return text_of(random.Random(seed).choices(range(3, VOCAB_SIZE), k=num_tokens))


def cached_tokens(server: OpenAIServer, text: str, **wishes: float) -> int:
    """Tokens of a prompt that were found."""
    usage = server.complete(text, max_tokens=2, **wishes)["usage"]
    found: int = (usage["prompt_tokens_details"] or {}).get("cached_tokens", 0)
    return found


def pins(service: str) -> str:
    command = [sys.executable, "-m", "kvquarry_server", "pins", "--target", service]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=30).stdout


def test_a_pinned_prompt_and_a_wanted_one_outlive_what_evicts_all_others(
    service: str, hybrid: Path, socket_folder: Path, tmp_path: Path
) -> None:
    with OpenAIServer(
        hybrid,
        socket_folder / "pins.sock",
        log=tmp_path / "server.log",
        options=OPTIONS,
        env=kvquarry_env(service, "pins"),
    ) as server:
        pinned, wanted, other = prompt(1), prompt(2), prompt(3)
        before = server.complete(pinned, max_tokens=8, kvquarry_pin_s=600)["choices"][0]["text"]
        assert cached_tokens(server, wanted, kvquarry_priority=1) == 0
        assert cached_tokens(server, other) == 0
        assert pins(service).splitlines()[1].split()[0] == "pins"
        num_sent = 0
        while True:
            (pool,) = pools_of(service, "pins")
            if min(pool.counters.eviction_counts) > 20:
                break
            num_sent += 1
            assert num_sent < 200, "nothing is evicted"
            server.complete(prompt(100 + num_sent, 900), max_tokens=2)
        assert cached_tokens(server, other) == 0
        assert cached_tokens(server, pinned) == 288
        assert cached_tokens(server, wanted) == 288
        # What was pinned is what was computed: the answer is the same.
        assert server.complete(pinned, max_tokens=8)["choices"][0]["text"] == before

        status, content = server.post(other, max_tokens=2, kvquarry_pin_s=-1)
        assert status == 400
        assert "kvquarry_pin_s: write for how many seconds" in content["error"]["message"]
        status, content = server.post(other, max_tokens=2, kvquarry_prio=1)
        assert status == 400
        assert "write kvquarry_pin_s or kvquarry_priority" in content["error"]["message"]

        server.complete(pinned, max_tokens=2, kvquarry_pin_s=0)
        assert pins(service) == "nothing is pinned\n"
