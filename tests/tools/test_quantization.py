"""``auto`` is the format that a quantized checkpoint asks of its cache."""

import json
from pathlib import Path
from typing import Any

import pytest

from kvquarry_tools.errors import InvalidConfiguration, InvalidOption
from kvquarry_tools.models import Serving, find_model, read_model
from tests.tools.configurations import LLAMA

TOKEN_BYTES = 3 * 2 * 2 * 16 * 2
FLOAT8 = {"dynamic": False, "num_bits": 8, "type": "float"}
PRODUCER = {"producer": {"name": "modelopt", "version": "0.29.0"}}
#: Quantizations, and the bytes of a number in the cache that vLLM 0.32 makes for them.
QUANTIZATIONS: list[tuple[dict[str, Any], int]] = [
    ({"quant_method": "modelopt", "quant_algo": "FP8", "kv_cache_scheme": FLOAT8}, 1),
    ({"quant_method": "modelopt", "quant_algo": "FP8"}, 2),
    ({"quant_method": "modelopt", "kv_cache_scheme": FLOAT8 | {"dynamic": True}}, 2),
    ({"quant_method": "modelopt", "kv_cache_scheme": FLOAT8 | {"type": "int"}}, 2),
    ({"quant_method": "modelopt_fp4", "kv_cache_quant_algo": "FP8"}, 1),
    ({"quant_method": "modelopt", "kv_cache_quant_algo": "int7"}, 2),
    ({"quant_method": "modelopt", "quantization": {"kv_cache_quant_algo": "fp8"}}, 1),
    ({"quant_method": "modelopt", "quantization": {}, "kv_cache_scheme": FLOAT8}, 1),
    (PRODUCER | {"quantization": {"quant_algo": "FP8", "kv_cache_quant_algo": "FP8"}}, 1),
    (PRODUCER | {"quantization": {"quant_algo": "FP8", "kv_cache_quant_algo": None}}, 2),
    ({"quant_method": "compressed-tensors", "kv_cache_scheme": FLOAT8}, 1),
    ({"quant_method": "compressed-tensors", "kv_cache_scheme": None}, 2),
    ({"quant_method": "fp8", "kv_cache_scheme": FLOAT8}, 2),
]


def token_bytes(quantization: object, serving: Serving) -> int:
    model = read_model("quantized", LLAMA | {"quantization_config": quantization})
    return model.served(serving).bytes_per_token


@pytest.mark.parametrize(("quantization", "number_bytes"), QUANTIZATIONS, ids=str)
def test_auto_is_what_the_checkpoint_asks_for(
    quantization: dict[str, Any], number_bytes: int
) -> None:
    assert token_bytes(quantization, Serving()) == TOKEN_BYTES * number_bytes // 2


def test_a_format_that_is_given_wins_over_the_checkpoints() -> None:
    quantization, _ = QUANTIZATIONS[0]
    assert token_bytes(quantization, Serving(kv_dtype="bfloat16")) == TOKEN_BYTES


def test_a_note_says_which_format_was_taken() -> None:
    quantization, _ = QUANTIZATIONS[0]
    noted = read_model("quantized", LLAMA | {"quantization_config": quantization}).notes
    assert any("fp8_e4m3" in note for note in noted)
    plain = read_model("plain", LLAMA).notes
    assert not any("fp8_e4m3" in note for note in plain)


def test_pages_of_a_packed_format_are_not_guessed() -> None:
    packed = {"quant_method": "modelopt_fp4", "kv_cache_scheme": {"num_bits": 4, "type": "float"}}
    with pytest.raises(InvalidOption, match=r"asks for a cache of nvfp4.*--kv-dtype: bfloat16"):
        token_bytes(packed, Serving())
    assert token_bytes(packed, Serving(kv_dtype="fp8")) == TOKEN_BYTES // 2


def test_the_file_beside_an_older_checkpoint_is_read(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(LLAMA))
    beside = PRODUCER | {"quantization": {"quant_algo": "FP8", "kv_cache_quant_algo": "FP8"}}
    (tmp_path / "hf_quant_config.json").write_text(json.dumps(beside))
    served = find_model(str(tmp_path)).served(Serving())
    assert served.bytes_per_token == TOKEN_BYTES // 2


@pytest.mark.parametrize("quantization", ["fp8", {"quant_method": 8}])
def test_a_quantization_that_makes_no_sense_is_named(quantization: object) -> None:
    with pytest.raises(InvalidConfiguration, match="quantization_config"):
        token_bytes(quantization, Serving())
