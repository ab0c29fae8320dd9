"""vLLM's OpenAI server on a kvquarry pool: one variable more than stock, and no other change."""

import random
from pathlib import Path

import pytest

from kvquarry_vllm.demo.checkpoint import VOCAB_SIZE
from kvquarry_vllm.demo.jobs import ROOMY_POOL_BYTES, kvquarry_env, stock_env
from kvquarry_vllm.demo.tokenizer import text_of
from tests.architecture.readme import commands_of
from tests.e2e.harness import pools_of
from tests.e2e.http_server import OpenAIServer

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(300)]

(_TYPED,) = commands_of("python", "-m", "vllm.entrypoints.openai.api_server")
#: As the README tells; what follows makes the answers comparable and the memory small.
OPTIONS = (
    *_TYPED[_TYPED.index("--block-size") :],
    "--enforce-eager",
    "--enable-prompt-tokens-details",
    *("--kv-cache-memory-bytes", str(ROOMY_POOL_BYTES)),
    *("--max-model-len", "1024"),
)
PROMPT = text_of(random.Random(4).choices(range(3, VOCAB_SIZE), k=300))


def sent_twice(server: OpenAIServer) -> tuple[list[str], list[int]]:
    """The texts of two equal requests and the prompt tokens that were found cached for them."""
    answers = [server.complete(PROMPT, max_tokens=8) for _ in "ab"]
    texts = [answer["choices"][0]["text"] for answer in answers]
    details = [answer["usage"]["prompt_tokens_details"] or {} for answer in answers]
    assert [answer["usage"]["prompt_tokens"] for answer in answers] == [300, 300]
    return texts, [detail.get("cached_tokens", 0) for detail in details]


def test_a_completion_sent_again_is_found_in_the_pool_of_the_service(
    service: str, hybrid: Path, socket_folder: Path, tmp_path: Path
) -> None:
    with OpenAIServer(
        hybrid,
        socket_folder / "ours.sock",
        log=tmp_path / "server.log",
        options=OPTIONS,
        env=kvquarry_env(service, "openai"),
    ) as server:
        texts, cached_tokens = sent_twice(server)
        (pool,) = pools_of(service, "openai")
    assert cached_tokens == [0, 288]
    assert pool.counters.hit_tokens == 288
    assert len(texts[0].split()) == 8
    assert texts[0] == texts[1]


def test_without_a_target_the_same_command_line_is_stock(
    hybrid: Path, socket_folder: Path, tmp_path: Path
) -> None:
    with OpenAIServer(
        hybrid,
        socket_folder / "stock.sock",
        log=tmp_path / "server.log",
        options=OPTIONS,
        env=stock_env(),
    ) as server:
        texts, cached_tokens = sent_twice(server)
        assert "kvquarry pool" not in (tmp_path / "server.log").read_text(errors="replace")
    assert cached_tokens == [0, 160]
    assert texts[0] == texts[1]
