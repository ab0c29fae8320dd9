"""The bytes read out of configurations are those that are published of the models."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from kvquarry_core.plan import GroupKind
from kvquarry_tools.errors import (
    InvalidConfiguration,
    InvalidOption,
    UnknownArchitecture,
    UnknownModel,
)
from kvquarry_tools.models import Serving, find_model, known_models, read_model
from kvquarry_tools.models.families import READERS
from tests.tools.configurations import LLAMA
from tests.tools.published import Published, published_models

PUBLISHED = published_models()
every_model = pytest.mark.parametrize("published", PUBLISHED, ids=lambda model: model.name)

HYBRID = {
    "architectures": ["Qwen3NextForCausalLM"],
    "dtype": "bfloat16",
    "full_attention_interval": 4,
    "head_dim": 32,
    "linear_conv_kernel_dim": 4,
    "linear_key_head_dim": 16,
    "linear_num_key_heads": 4,
    "linear_num_value_heads": 8,
    "linear_value_head_dim": 16,
    "num_attention_heads": 8,
    "num_hidden_layers": 8,
    "num_key_value_heads": 2,
}


def figures(published: Published) -> dict[str, Any]:
    """What the tools make of a model, under the names it is published with."""
    served = find_model(published.name).served(published.serving)
    made: dict[str, Any] = {}
    for layer, count in Counter(served.layers).items():
        if layer.state_bytes:
            made |= {"state_layers": count, "state_bytes_per_layer": layer.state_bytes}
        elif layer.window_tokens:
            made |= {
                "windowed_layers": count,
                "window_tokens": layer.window_tokens,
                "windowed_bytes_per_token_per_layer": layer.bytes_per_token,
            }
        else:
            made |= {
                "full_attention_layers": count,
                "full_attention_bytes_per_token_per_layer": layer.bytes_per_token,
            }
    return made


@every_model
def test_layers_and_bytes_are_the_published_ones(published: Published) -> None:
    expected = {
        key: value
        for key, value in published.figures.items()
        if key != "source" and not key.startswith("stock_vllm")
    }
    assert figures(published) == expected


def test_every_published_model_and_every_name_is_known() -> None:
    assert {published.name for published in PUBLISHED} <= set(known_models())
    for name in known_models():
        assert find_model(name).layers


def test_every_shipped_configuration_has_a_name() -> None:
    folder = Path(find_model.__code__.co_filename).parent / "configurations"
    named = set(json.loads((folder / "names.json").read_text()).values())
    assert named | {"names.json"} == {path.name for path in folder.iterdir()}


@pytest.mark.parametrize("name", ["qwen3.6-27b", "QWEN3.6-27B", "Qwen/Qwen3.6-27B"])
def test_a_name_is_found_in_any_case_and_behind_an_owner(name: str) -> None:
    assert find_model(name).name == "Qwen3.6-27B"


def test_a_file_and_its_folder_are_models_too(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(LLAMA))
    assert find_model(str(tmp_path)).layers == find_model(str(tmp_path / "config.json")).layers


@pytest.mark.parametrize(
    "path",
    [
        "./checkpoints/Qwen3-8B",
        "checkpoints/mine/Qwen3-8B",
        "/checkpoints/Qwen3-8B",
        "~/Qwen3-8B",
        "~nobody-at-all/Qwen3-8B",
        "../Qwen3-8B",
        "./Qwen3-8B",
    ],
)
def test_a_path_without_a_file_is_not_taken_for_a_name(
    path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(UnknownModel, match=r"Qwen3-8B cannot be read: No such file"):
        find_model(path)


def test_a_shipped_configuration_that_was_taken_for_an_owners_is_noted() -> None:
    assert find_model("Qwen3-8B").notes == ()
    (note,) = find_model("nobody/Qwen3-8B").notes
    assert (
        note
        == "there is no file nobody/Qwen3-8B; the configuration is the one shipped for Qwen3-8B"
    )


def test_a_home_folder_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "config.json").write_text(json.dumps(LLAMA))
    assert find_model("~/config.json").architecture == "LlamaForCausalLM"


def test_a_name_that_no_file_can_have_is_unknown() -> None:
    with pytest.raises(UnknownModel, match="no model is known"):
        find_model("x" * 5000)


def test_an_unknown_name_is_answered_with_close_ones() -> None:
    with pytest.raises(UnknownModel, match=r"did you mean .*Qwen3\.6-27B"):
        find_model("Qwen3.6-28B")


def test_a_missing_file_is_told_from_an_unknown_name() -> None:
    with pytest.raises(UnknownModel, match=r"nowhere/config\.json cannot be read: No such file"):
        find_model("nowhere/config.json")


def test_a_folder_without_a_configuration_is_named(tmp_path: Path) -> None:
    with pytest.raises(UnknownModel, match=r"config\.json cannot be read: No such file"):
        find_model(str(tmp_path))


def test_an_unknown_architecture_is_answered_with_the_known_ones() -> None:
    with pytest.raises(UnknownArchitecture, match=r"MadeUp.*known are: .*LlamaForCausalLM"):
        read_model("made up", LLAMA | {"architectures": ["MadeUp"]})


def test_a_slip_in_an_architecture_is_answered_with_what_was_meant() -> None:
    with pytest.raises(UnknownArchitecture, match=r"did you mean Qwen3ForCausalLM\? Then change"):
        read_model("slip", LLAMA | {"architectures": ["Qwen3ForCasualLM"]})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"num_hidden_layers": 10**9}, "num_hidden_layers is 1000000000; it must be at most 10000"),
        ({"architectures": None}, "architectures"),
        ({"num_hidden_layers": None}, "num_hidden_layers is missing"),
        ({"num_hidden_layers": "three"}, "num_hidden_layers is 'three'"),
        ({"num_hidden_layers": True}, "num_hidden_layers is True"),
        ({"num_key_value_heads": 0}, "num_key_value_heads is 0"),
        ({"torch_dtype": "int3"}, "dtype is 'int3'"),
        ({"torch_dtype": []}, "dtype is"),
        ({"layer_types": ["full_attention", "dreaming"]}, "layer 1 is of kind 'dreaming'"),
    ],
)
def test_a_field_that_makes_no_sense_is_named(change: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidConfiguration, match=message):
        read_model("changed", LLAMA | change)


@pytest.mark.parametrize(
    "content", ["{", "[]", "", "[" * 100_000], ids=["open", "list", "empty", "deep"]
)
def test_a_file_that_holds_no_configuration_is_refused(content: str, tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    file.write_text(content)
    with pytest.raises(InvalidConfiguration, match=r"config\.json"):
        find_model(str(file))


CHANGES = [
    ("full_attention_interval", 2),
    ("head_dim", 64),
    ("linear_conv_kernel_dim", 5),
    ("linear_key_head_dim", 32),
    ("linear_num_key_heads", 8),
    ("linear_num_value_heads", 16),
    ("linear_value_head_dim", 32),
    ("num_hidden_layers", 12),
    ("num_key_value_heads", 4),
    ("dtype", "float32"),
    ("mamba_ssm_dtype", "float32"),
]


@pytest.mark.parametrize(("field", "value"), CHANGES, ids=[field for field, _ in CHANGES])
def test_changing_a_field_changes_the_groups(field: str, value: object) -> None:
    assert (
        read_model("as it is", HYBRID).groups() != read_model("x", HYBRID | {field: value}).groups()
    )


def test_every_architecture_is_read_from_the_fields_it_shares_with_a_shipped_one() -> None:
    shipped = {find_model(name).architecture for name in known_models()}
    assert shipped <= set(READERS)
    readers = {READERS[architecture] for architecture in shipped}
    untried = sorted(name for name, reader in READERS.items() if reader not in readers)
    assert untried == ["Gemma2ForCausalLM", "MistralForCausalLM", "MixtralForCausalLM"]


def test_gemma_2_has_a_window_in_every_other_layer() -> None:
    fields = {"num_hidden_layers": 4, "sliding_window": 4096}
    model = read_model("g", {"architectures": ["Gemma2ForCausalLM"], "head_dim": 8} | fields)
    kinds = [layer.kind for layer in model.served(Serving()).layers]
    assert kinds == [GroupKind.SLIDING_WINDOW, GroupKind.FULL_ATTENTION] * 2


@pytest.mark.parametrize(
    ("window", "kind"), [(4096, GroupKind.SLIDING_WINDOW), (None, GroupKind.FULL_ATTENTION)]
)
def test_mistral_has_a_window_everywhere_or_nowhere(window: int | None, kind: GroupKind) -> None:
    fields = LLAMA | {"architectures": ["MistralForCausalLM"], "sliding_window": window}
    assert {layer.kind for layer in read_model("m", fields).served(Serving()).layers} == {kind}


def test_layers_that_share_the_cache_of_others_keep_none() -> None:
    fields = {
        "architectures": ["Gemma4ForCausalLM"],
        "head_dim": 8,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "num_hidden_layers": 12,
        "sliding_window": 64,
    }
    whole = read_model("g", fields)
    assert read_model("g", fields | {"num_kv_shared_layers": 4}).layers == whole.layers[:8]


def test_workers_share_heads_and_states_and_each_keeps_the_latent_vector_whole() -> None:
    for name, tp in [("Qwen3.6-27B", 4), ("Nemotron-3-Ultra-550B-A55B", 2), ("Jamba", 8)]:
        one, many = (find_model(name).served(Serving(tp=workers)) for workers in (1, tp))
        assert many.bytes_per_token * tp == one.bytes_per_token
        assert many.checkpoint_bytes * tp == one.checkpoint_bytes
    kimi = find_model("Kimi-K3")
    assert kimi.served(Serving(tp=8)).bytes_per_token == kimi.served(Serving()).bytes_per_token


def test_more_workers_than_heads_keep_one_head_each() -> None:
    model = find_model("Nemotron-3-Nano-30B-A3B")
    two, eight = (model.served(Serving(tp=tp)).bytes_per_token for tp in (2, 8))
    assert two == eight


def test_groups_of_a_state_are_copied_to_workers_that_would_have_none() -> None:
    """Granite has one group of B and C; two workers need one each (vLLM's head shards)."""
    one, two = (
        max(layer.state_bytes for layer in find_model("Granite-4.0-H-Tiny").served(s).layers)
        for s in (Serving(), Serving(tp=2))
    )
    heads_bytes, channels_bytes, group_bytes = 48 * 64 * 128 * 2, 3072 * 3 * 2, 2 * 128 * 3 * 2
    assert one == heads_bytes + channels_bytes + group_bytes
    assert two == (heads_bytes + channels_bytes) // 2 + group_bytes


@pytest.mark.parametrize(
    ("serving", "message"),
    [
        (Serving(block_tokens=0), "--block-size 0"),
        (Serving(tp=0), "--tp 0"),
        (Serving(tp=3), "--tp 3"),
        (Serving(tp=5), "--tp 5"),
        (Serving(kv_dtype="int3"), r"--kv-dtype 'int3'.*fp8"),
        (Serving(state_dtype="fp8"), r"--state-dtype 'fp8'.*float32"),
        (Serving(num_speculative_tokens=-1), "--spec-tokens -1"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_what_the_model_cannot_be_served_with_is_refused(serving: Serving, message: str) -> None:
    with pytest.raises(InvalidOption, match=message):
        find_model("Qwen3.6-27B").served(serving)


@pytest.mark.parametrize("name", known_models())
def test_every_number_of_workers_that_is_advised_works_and_no_other(name: str) -> None:
    model = find_model(name)
    with pytest.raises(InvalidOption, match="choose one of: 1, ") as refused:
        model.served(Serving(tp=1_000_003))
    advised = [int(tp) for tp in str(refused.value).partition("one of: ")[2].split(", ")]
    for tp in range(1, 65):
        if tp in advised:
            assert model.served(Serving(tp=tp)).serving.tp == tp
        else:
            with pytest.raises(InvalidOption, match="choose one of"):
                model.served(Serving(tp=tp))


def test_workers_share_the_heads_of_queries_too() -> None:
    with pytest.raises(InvalidOption, match=r"--tp 24 does not.* 32 heads of queries"):
        find_model("Llama-3.1-8B").served(Serving(tp=24))


def test_formats_change_what_they_are_of_and_nothing_else() -> None:
    model = find_model("Qwen3.6-27B")
    usual = model.served(Serving())
    fp8 = model.served(Serving(kv_dtype="fp8"))
    assert (fp8.bytes_per_token * 2, fp8.checkpoint_bytes) == (
        usual.bytes_per_token,
        usual.checkpoint_bytes,
    )
    bf16 = model.served(Serving(state_dtype="bfloat16"))
    assert bf16.bytes_per_token == usual.bytes_per_token
    assert usual.checkpoint_bytes - bf16.checkpoint_bytes == 48 * 48 * 128 * 128 * 2


def test_drafts_lengthen_the_convolution_and_hold_more_states() -> None:
    usual, drafting = (
        find_model("Qwen3.6-27B").served(Serving(num_speculative_tokens=n)) for n in (0, 5)
    )
    channels = 2 * 16 * 128 + 48 * 128
    assert drafting.checkpoint_bytes - usual.checkpoint_bytes == 48 * channels * 5 * 2
    assert {g.num_speculative_blocks for g in drafting.groups} == {0, 5}
