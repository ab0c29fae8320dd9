"""What a model computes, read out of its configuration."""

import json
from pathlib import Path
from typing import Any

import pytest

from kvquarry_core.work import TOKENS, Work
from kvquarry_server.cli import main
from kvquarry_tools.models import Serving, find_model, known_models, read_model
from kvquarry_tools.simulation.replay.tally import Tally
from kvquarry_tools.simulation.settings import Baseline, SimulationSettings
from kvquarry_tools.simulation.setups import make_pool

#: Billions of parameters that a token passes, embeddings left out: what is published, or what names
#: say. Those of Kimi-K3 and GLM-5.3-Flash are published nowhere.
ACTIVE_BILLIONS = {
    "Qwen3.6-35B-A3B": 3,
    "Qwen3.5-35B-A3B": 3,
    "Qwen3.6-27B": 24.5,
    "Qwen3.5-4B": 3.5,
    "Qwen3.5-9B": 7,
    "Qwen3.5-122B-A10B": 10,
    "Qwen3.5-397B-A17B": 17,
    "Qwen3-Next-80B-A3B": 3,
    "Nemotron-3-Nano-30B-A3B": 3,
    "Nemotron-3-Super-120B-A12B": 12,
    "Nemotron-3-Ultra-550B-A55B": 55,
    "Nemotron-H-56B-Base-8K": 54,
    "Nemotron-Nano-9B-v2": 7.7,
    "Granite-4.0-H-Tiny": 1.3,
    "Falcon-H1-7B": 6.8,
    "Bamba-9B": 8.8,
    "Jamba": 12,
    # Shared attention is passed nine times.
    "Zamba2": 3.3,
    "LFM2-2.6B": 2.4,
    "Kimi-Linear-48B-A3B": 3,
    "Gemma-3-4B": 3.2,
    "Gemma-4-26B-A4B": 4,
    "gpt-oss-20b": 3.6,
    "Llama-4-Scout": 17,
    "Llama-3.1-8B": 6.98,
    "Qwen3-8B": 6.95,
    "DeepSeek-V3": 37,
}
UNPUBLISHED = {"Kimi-K3", "GLM-5.3-Flash"}
#: Its configuration, as far as it is shipped, leaves the feed-forward part out.
UNKNOWN = {"Falcon-H1-3B"}

LLAMA: dict[str, object] = {
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": 64,
    "intermediate_size": 100,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "num_hidden_layers": 3,
}
#: Of one layer: queries and output 64 x 64 each, keys and values 64 x 32 each.
ATTENTION = 2 * 64 * 64 + 2 * 64 * 32
#: In, out, and a gate.
DENSE = 3 * 64 * 100


def work(fields: dict[str, object], **more: object) -> Work:
    """The work of a model of these fields."""
    found = read_model("made up", {**fields, **more}).work
    assert found is not None
    return found


def test_the_work_of_attention_is_counted_by_hand() -> None:
    """A query of 4 x 16 numbers meets a key, and a weight for each head a value: 2 x 2 x 64."""
    assert work(LLAMA) == Work(2.0 * 3 * (ATTENTION + DENSE), 3 * 4 * 64.0)


def test_a_window_meets_as_many_tokens_as_it_spans_wherever_a_token_stands() -> None:
    types = ["full_attention", "sliding_attention", "sliding_attention"]
    windowed = work(LLAMA, layer_types=types, sliding_window=128)
    assert windowed.token_pair_flops == 4 * 64
    assert windowed.token_flops == 2 * 3 * (ATTENTION + DENSE) + 2 * 128 * 4 * 64


def test_a_chunk_is_half_full_on_average() -> None:
    chunked = {**LLAMA, "architectures": ["Llama4ForCausalLM"], "attention_chunk_size": 128}
    found = work(chunked, no_rope_layers=[1, 1, 0])
    assert found.token_pair_flops == 4 * 64
    assert found.token_flops == 2 * 3 * (ATTENTION + DENSE) + 2 * 64 * 4 * 64


def test_latent_attention_is_counted_by_hand() -> None:
    latent = {
        **LLAMA,
        "architectures": ["DeepseekV3ForCausalLM"],
        "kv_lora_rank": 8,
        "qk_rope_head_dim": 2,
        "qk_nope_head_dim": 4,
        "v_head_dim": 5,
    }
    keys_and_values = 64 * (8 + 2) + 8 * 4 * (4 + 5) + 4 * 5 * 64
    direct = 64 * 4 * (4 + 2) + keys_and_values
    assert work(latent) == Work(2.0 * 3 * (direct + DENSE), 3 * 2 * 4 * (6 + 5.0))
    short = 64 * 3 + 3 * 4 * (4 + 2) + keys_and_values
    assert work(latent, q_lora_rank=3).token_flops == 2 * 3 * (short + DENSE)


EXPERTS: dict[str, object] = {
    "num_experts": 10,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 7,
}
#: A router of 10 outputs, and two experts of three matrices.
SPARSE = 64 * 10 + 2 * 3 * 64 * 7


@pytest.mark.parametrize(
    ("more", "parameters"),
    [
        ({}, 3 * SPARSE),
        ({"num_experts": 20}, 3 * (SPARSE + 64 * 10)),
        ({"num_experts_per_tok": 3}, 3 * (SPARSE + 3 * 64 * 7)),
        ({"n_shared_experts": 2}, 3 * (SPARSE + 2 * 3 * 64 * 7)),
        ({"shared_expert_intermediate_size": 9}, 3 * (SPARSE + 3 * 64 * 9)),
        ({"first_k_dense_replace": 1}, DENSE + 2 * SPARSE),
        ({"expert_layer_period": 2, "expert_layer_offset": 1}, 2 * DENSE + SPARSE),
        ({"interleave_moe_layer_step": 2}, 2 * DENSE + SPARSE),
        ({"mlp_only_layers": [0, 2]}, 2 * DENSE + SPARSE),
        ({"mlp_layer_types": ["dense", "sparse", "sparse"]}, DENSE + 2 * SPARSE),
        ({"enable_moe_block": True}, 3 * (SPARSE + DENSE)),
        ({"moe_latent_size": 32}, 3 * (64 * 10 + 2 * 64 * 32 + 2 * 3 * 32 * 7)),
        ({"mlp_hidden_act": "relu2"}, 3 * (64 * 10 + 2 * 2 * 64 * 7)),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else "",
)
def test_of_experts_those_count_that_a_token_is_sent_to(
    more: dict[str, object], parameters: int
) -> None:
    found = work({**LLAMA, **EXPERTS}, **more)
    assert found.token_flops == 2 * (3 * ATTENTION + parameters)


@pytest.mark.parametrize("name", ACTIVE_BILLIONS)
def test_a_token_passes_as_many_parameters_as_its_model_is_said_to_have_active(name: str) -> None:
    """What names say is rounded, and partly with embeddings."""
    found = find_model(name).work
    assert found is not None
    assert 0.78 < found.token_flops / 2e9 / ACTIVE_BILLIONS[name] < 1.06


def test_every_known_model_is_looked_at() -> None:
    assert {*ACTIVE_BILLIONS, *UNPUBLISHED, *UNKNOWN} == set(known_models())
    assert all(find_model(name).work for name in UNPUBLISHED)
    assert not any(find_model(name).work for name in UNKNOWN)


@pytest.mark.parametrize("missing", ["intermediate_size", "hidden_size", "num_attention_heads"])
def test_a_configuration_that_does_not_say_has_no_work(missing: str) -> None:
    """Its cache is known all the same; tokens stand for work then."""
    fields = {**LLAMA, "head_dim": 16}
    del fields[missing]
    model = read_model("made up", fields)
    assert model.work is None
    assert len(model.layers) == 3


def settings(name: str, baseline: Baseline | None = None) -> SimulationSettings:
    return SimulationSettings(find_model(name).served(Serving(64)), 20 << 30, baseline=baseline)


def test_a_simulated_pool_weighs_by_the_model_s_work_where_it_is_known() -> None:
    [known] = make_pool(settings("Qwen3.6-35B-A3B"), []).parts
    assert known.store.cache.work == find_model("Qwen3.6-35B-A3B").work
    [unknown] = make_pool(settings("Falcon-H1-3B"), []).parts
    assert unknown.store.cache.work == TOKENS


def test_scripts_are_told_what_a_model_computes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def shown(**more: object) -> object:
        (tmp_path / "config.json").write_text(json.dumps({**LLAMA, **more}))
        assert main(["plan", "--model", str(tmp_path), "--memory", "1GiB", "--json"]) == 0
        answer: dict[str, Any] = json.loads(capsys.readouterr().out)
        return answer["model"]["work"]

    assert shown() == {"token_flops": 2 * 3 * (ATTENTION + DENSE), "token_pair_flops": 768}
    assert shown(intermediate_size=None) is None


def test_hits_are_counted_in_work_too() -> None:
    """Of prompts of four and two tokens two and none are found: 2 of 6 tokens, 3 of 13 pairs."""
    tally = Tally(lengths=[(4, 2), (2, 0)])
    assert tally.work_hit_rate(TOKENS) == 2 / 6
    assert tally.work_hit_rate(Work(0.0, token_pair_flops=5.0)) == 3 / 13
    assert Tally().work_hit_rate(TOKENS) == 0
