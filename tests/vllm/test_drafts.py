"""Speculative decoding by layers of its own: whose it is, and where hits end."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from vllm.v1.kv_cache_interface import KVCacheSpec, SlidingWindowSpec

from kvquarry_core.plan import GroupKind
from kvquarry_vllm.drafts import pool_groups
from kvquarry_vllm.gates.replacements import pool_groups_or_none
from kvquarry_vllm.scope import reason_for_stock
from kvquarry_vllm.worker import WorkerRefused, memory_of
from tests.vllm.configurations import (
    attention,
    attention_layers,
    drafting,
    groups_of,
    hybrid_layers,
    pool_config,
    vllm_config,
)
from tests.vllm.test_worker import built

EAGLES = ("eagle", "eagle3", "mtp")


def layers_of_three_kinds() -> dict[str, KVCacheSpec]:
    """A hybrid with a window, and a layer that drafts with larger pages behind all others."""
    plain = attention()
    window = SlidingWindowSpec(
        block_size=plain.block_size,
        num_kv_heads=plain.num_kv_heads,
        head_size=plain.head_size,
        dtype=plain.dtype,
        sliding_window=128,
    )
    return hybrid_layers() | {"window": window, "draft": attention(head_size=128)}


@pytest.mark.parametrize("method", [*EAGLES, "ngram", "suffix", "medusa"])
def test_drafts_that_can_be_ours_are(method: str) -> None:
    assert reason_for_stock(vllm_config(**drafting(method)), layers_of_three_kinds()) is None


def test_a_draft_model_is_ours_where_all_layers_share_a_group() -> None:
    """vLLM's runner hands it the first group's blocks: elsewhere it would write into others'."""
    config = vllm_config(**drafting("draft_model"))
    assert reason_for_stock(config, attention_layers()) is None
    for layers in (hybrid_layers(), layers_of_three_kinds()):
        assert "another group" in str(reason_for_stock(config, layers))


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        (drafting("dflash"), "dflash"),
        (drafting("dspark"), "dspark"),
        (drafting("extract_hidden_states"), "extract_hidden_states"),
        (drafting("eagle", parallel_drafting=True), "several tokens at once"),
        (drafting("draft_model", parallel_drafting=True), "several tokens at once"),
        (drafting("mtp") | {"num_prefill_lookahead_tokens": 2}, "chain"),
        (drafting("eagle") | {"num_hash_lookahead_tokens": 1}, "look ahead"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_drafts_that_are_not_understood_are_left_to_stock(
    changes: dict[str, Any], reason: str
) -> None:
    found = reason_for_stock(vllm_config(**changes), attention_layers())
    assert found is not None
    assert reason in found


@pytest.mark.parametrize("model_type", ["gemma4_mtp", "step3p5_mtp"])
def test_modules_that_read_several_groups_are_left_to_stock(model_type: str) -> None:
    draft = SimpleNamespace(hf_config=SimpleNamespace(model_type=model_type))
    config = vllm_config(**drafting("mtp", draft_model_config=draft))
    assert "several groups" in str(reason_for_stock(config, attention_layers()))


@pytest.mark.parametrize("method", EAGLES)
def test_where_drafts_read_the_next_token_all_attention_has_the_margin(method: str) -> None:
    groups = groups_of(layers_of_three_kinds())
    specs = pool_groups(vllm_config(**drafting(method)), groups)
    assert {spec.kind for spec in specs if spec.is_draft} == {
        GroupKind.FULL_ATTENTION,
        GroupKind.SLIDING_WINDOW,
    }
    for spec in specs:
        assert spec.is_draft == (spec.kind is not GroupKind.RECURRENT_STATE)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        drafting("ngram"),
        drafting("draft_model"),
        drafting("mtp", disable_eagle_block_drop=True),
    ],
    ids=["no drafts", "n-grams", "a draft model", "vLLM's drop is off"],
)
def test_where_vllm_drops_no_block_nobody_has_the_margin(changes: dict[str, Any]) -> None:
    specs = pool_groups(vllm_config(**changes), groups_of(layers_of_three_kinds()))
    assert not any(spec.is_draft for spec in specs)


def test_the_pool_that_is_opened_is_the_one_that_was_counted_with() -> None:
    """Memory is counted from the groups in one place, and the pool is planned in another."""
    changes = drafting("eagle")
    counted = pool_groups_or_none(vllm_config(**changes), groups_of(layers_of_three_kinds()))
    assert pool_config(layers_of_three_kinds(), **changes).plan.groups == counted


@pytest.mark.parametrize(("is_v2", "is_refused"), [(False, True), (True, False)])
def test_kernels_that_split_blocks_are_refused_where_drafts_would_go_astray(
    is_v2: bool, is_refused: bool
) -> None:
    config = pool_config(hybrid_layers(), **drafting("mtp"))
    worker = built(config, kernel_block_tokens=32)
    worker.vllm_config.speculative_config = drafting("mtp")["speculative_config"]
    worker.vllm_config.use_v2_model_runner = is_v2
    if not is_refused:
        assert memory_of(worker, config).views
        return
    with pytest.raises(WorkerRefused, match="--block-size 32"):
        memory_of(worker, config)
