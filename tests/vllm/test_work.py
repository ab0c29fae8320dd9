"""What the plug-in tells a pool of its model's work."""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any

import pytest
from transformers import LlamaConfig, PretrainedConfig, Qwen3NextConfig

from kvquarry_core.work import Work
from kvquarry_tools.models import read_model
from kvquarry_vllm.log import logger
from kvquarry_vllm.work import model_work
from tests.tools.test_work import ATTENTION, DENSE, LLAMA


def model_config(hf_config: PretrainedConfig) -> Any:
    return SimpleNamespace(model="made up", hf_config=hf_config)


def test_the_work_is_read_out_of_vllms_configuration() -> None:
    told = model_work(model_config(LlamaConfig(**LLAMA)))
    assert told == Work(2.0 * 3 * (ATTENTION + DENSE), 3 * 4 * 64.0)


def test_a_hybrid_with_experts_has_work_too() -> None:
    config = Qwen3NextConfig(architectures=["Qwen3NextForCausalLM"])
    told = model_work(model_config(config))
    assert told is not None
    assert told == read_model("same", config.to_dict()).work
    assert 2e9 < told.token_flops / 2 < 4e9  # 80B-A3B is what an empty configuration means


@pytest.mark.parametrize(
    "fields",
    [{}, {"architectures": ["NobodyForCausalLM"]}, {**LLAMA, "hidden_size": 0}],
    ids=["none", "unknown", "senseless"],
)
def test_a_model_that_is_not_known_stops_no_engine(
    fields: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, logger=logger.name):
        assert model_work(model_config(PretrainedConfig(**fields))) is None
    assert "tokens stand for the work" in caplog.text
