"""The user's block size stays what it is, or is refused; models out of scope are stock vLLM's."""

from types import SimpleNamespace
from typing import Any

import pytest
from vllm.v1.attention.backend import MultipleOf
from vllm.v1.kv_cache_interface import KVCacheSpec

from kvquarry_vllm import alignment
from kvquarry_vllm.gates.replacements import keeping_block_size
from kvquarry_vllm.refusals import SettingRefused
from tests.vllm.configurations import attention, hybrid_layers, state, vllm_config


class Backend:
    """An attention backend that takes multiples of 32 tokens."""

    @staticmethod
    def get_name() -> str:
        return "FAKE_ATTN"

    @staticmethod
    def get_supported_kernel_block_sizes(spec: KVCacheSpec) -> list[int | MultipleOf]:
        return [MultipleOf(32)]


class WholeSizes(Backend):
    """An attention backend that takes two sizes."""

    @staticmethod
    def get_supported_kernel_block_sizes(spec: KVCacheSpec) -> list[int | MultipleOf]:
        return [64, 96]


def align(monkeypatch: pytest.MonkeyPatch, layers: dict[str, KVCacheSpec], config: Any) -> bool:
    """Run the hook; whether it went on to stock vLLM."""
    called: list[Any] = []
    monkeypatch.setattr(alignment, "get_kv_cache_spec", lambda _: layers)
    context = config.compilation_config.static_forward_context
    for name in layers:
        context.setdefault(name, SimpleNamespace(get_attn_backend=lambda: Backend))
    monkeypatch.setattr(alignment, "set_current_vllm_config", lambda _: _Nothing())
    hook = keeping_block_size(lambda *arguments: called.append(arguments))
    hook(SimpleNamespace(), config, Backend)
    return bool(called)


class _Nothing:
    def __enter__(self) -> None: ...
    def __exit__(self, *_: object) -> None: ...


@pytest.mark.parametrize("block_size", [32, 64, 4096])
def test_the_block_size_stays_and_states_follow_it(
    monkeypatch: pytest.MonkeyPatch, block_size: int
) -> None:
    config = vllm_config(
        cache_config__block_size=block_size,
        cache_config__mamba_block_size=16,
        cache_config__mamba_page_size_padded=1 << 20,
    )
    assert not align(monkeypatch, hybrid_layers(), config)
    assert config.cache_config.block_size == block_size
    assert config.cache_config.mamba_block_size == block_size
    assert config.cache_config.mamba_page_size_padded is None


def test_a_block_that_kernels_cannot_split_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    config = vllm_config(cache_config__block_size=48)
    layers = {"a": attention(block_size=48), "s": state(block_size=48)}
    with pytest.raises(SettingRefused, match=r"--block-size 48.*FAKE_ATTN.*32"):
        align(monkeypatch, layers, config)


@pytest.mark.parametrize(("block_size", "fits"), [(192, True), (64, True), (32, False)])
def test_layers_of_one_format_must_share_a_kernel_block(
    monkeypatch: pytest.MonkeyPatch, block_size: int, fits: bool
) -> None:
    """Either backend could split 32 tokens in its own way; the group has one block table."""
    config = vllm_config(cache_config__block_size=block_size)
    layers = {name: attention(block_size=block_size) for name in ("a", "b")}
    layers["s"] = state(block_size=block_size)
    config.compilation_config.static_forward_context["b"] = SimpleNamespace(
        get_attn_backend=lambda: WholeSizes
    )
    if fits:
        assert not align(monkeypatch, layers, config)
    else:
        with pytest.raises(SettingRefused, match=r"--block-size 32.*\[64, 96\]"):
            align(monkeypatch, layers, config)


def test_a_model_out_of_scope_is_aligned_by_stock(monkeypatch: pytest.MonkeyPatch) -> None:
    layers = hybrid_layers() | {"odd": attention(sliding_window=128)}
    assert align(monkeypatch, layers, vllm_config())


def test_without_align_mode_stock_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    config = vllm_config(cache_config__mamba_cache_mode="none", cache_config__mamba_block_size=1024)
    layers = {"a": attention(), "s": state(mamba_cache_mode="none")}
    assert align(monkeypatch, layers, config)
    assert config.cache_config.mamba_block_size == 1024
