"""Stock vLLM's uniform pool is computed, and comes out as users report it."""

import pytest

from kvquarry_tools.models import Serving, StockLayout, find_model
from tests.tools.published import Published, published_models

HYBRIDS = [model for model in published_models() if "stock_vllm_block_tokens" in model.figures]
#: With latent attention vLLM 0.32 rounds blocks up to whole multiples of 128 tokens, which the
#: published figures leave out.
LATENT = ("Kimi-Linear-48B-A3B", "Kimi-K3", "GLM-5.3-Flash")


def stock(name: str, **serving: object) -> StockLayout:
    return find_model(name).served(Serving(**serving)).stock  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "serving", "block_tokens"),
    [
        ("Qwen3.5-4B", {}, 528),
        ("Qwen3.6-27B", {}, 784),
        ("Qwen3.6-27B", {"num_speculative_tokens": 5}, 816),
        ("Qwen3.6-35B-A3B", {}, 1056),
        ("Nemotron-Nano-9B-v2", {"state_dtype": "bfloat16"}, 672),
        ("Granite-4.0-H-Tiny", {}, 400),
        ("Qwen3.5-122B-A10B", {}, 2096),
        ("Nemotron-3-Super-120B-A12B", {}, 4160),
        ("Nemotron-3-Ultra-550B-A55B", {}, 8304),
    ],
)
def test_block_sizes_are_those_that_users_report(
    name: str, serving: dict[str, object], block_tokens: int
) -> None:
    assert stock(name, **serving).block_tokens == block_tokens


def test_four_workers_of_nemotron_3_nano_pad_to_the_page_that_users_report() -> None:
    assert stock("Nemotron-3-Nano-30B-A3B", tp=4).page_bytes == 540672


@pytest.mark.parametrize("published", HYBRIDS, ids=lambda model: model.name)
def test_block_size_and_padding_are_the_published_ones(published: Published) -> None:
    layout = find_model(published.name).served(published.serving).stock
    block_tokens = published.figures["stock_vllm_block_tokens"]
    if published.name in LATENT:
        assert layout.block_tokens == -(-block_tokens // 128) * 128
        return
    assert layout.block_tokens == block_tokens
    of_state = layout.state_padding / (1 - layout.state_padding)
    published_of_state = published.figures["stock_vllm_state_padding_pct"]
    assert 100 * of_state == pytest.approx(published_of_state, abs=0.005)


def test_a_larger_block_size_of_the_user_is_kept_where_a_state_fits() -> None:
    assert stock("Qwen3.5-4B", block_tokens=1024).block_tokens == 1024
    assert stock("Qwen3.5-4B", block_tokens=128).block_tokens == 640


def test_smaller_pages_of_attention_get_more_tokens_until_all_are_alike() -> None:
    layout = stock("Gemma-4-26B-A4B")
    assert {group.page_bytes for group in layout.groups} == {8192 * 16}
    assert sorted({group.block_tokens for group in layout.groups}) == [16, 32]


def test_attention_alone_is_left_as_it_is() -> None:
    layout = stock("Llama-3.1-8B", block_tokens=32)
    assert (layout.block_tokens, len(layout.groups), layout.state_padding) == (32, 1, 0.0)
