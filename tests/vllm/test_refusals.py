"""Each setting that cannot work is refused by name, with what to change."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from kvquarry_client.target import parse_target
from kvquarry_core.errors import UsageError
from kvquarry_core.policies import PolicyNames
from kvquarry_vllm.refusals import INPROC_RULES, RULES, SettingRefused, refuse_settings
from kvquarry_vllm.settings import Settings
from tests.vllm.configurations import vllm_config

SERVICE = Settings(parse_target("unix:/run/kvquarry.sock"), "engine", 1.0)
INPROC = Settings(parse_target("inproc:"), "engine", 1.0)

CASES: dict[str, dict[str, Any]] = {
    "--kv-transfer-config": {"kv_transfer_config": SimpleNamespace()},
    "--mamba-cache-mode all": {"cache_config__mamba_cache_mode": "all"},
    "prefix caching turned off": {"cache_config__mamba_cache_mode": "none"},
    "--prefix-match-unit": {"cache_config__prefix_match_unit": 32},
    "--enable-mamba-shared-prefix-checkpoint": {
        "cache_config__enable_mamba_shared_prefix_checkpoint": True
    },
    "--kv-cache-dtype-skip-layers": {"cache_config__kv_cache_dtype_skip_layers": ["0"]},
    "--use-replayssm": {"cache_config__use_replayssm": True},
    "--decode-context-parallel-size": {"parallel_config__decode_context_parallel_size": 2},
    "--prefill-context-parallel-size": {"parallel_config__prefill_context_parallel_size": 2},
    "--pipeline-parallel-size": {"parallel_config__pipeline_parallel_size": 2},
    "external_launcher": {"parallel_config__distributed_executor_backend": "external_launcher"},
    "--enable-elastic-ep": {"parallel_config__enable_elastic_ep": True},
    "hisparse_config": {"attention_config__hisparse_config": SimpleNamespace()},
    "--disable-hybrid-kv-cache-manager": {
        "scheduler_config__disable_hybrid_kv_cache_manager": True
    },
}


@pytest.mark.parametrize("setting", CASES)
def test_a_setting_that_cannot_work_is_refused_by_name(setting: str) -> None:
    with pytest.raises(SettingRefused, match=setting) as refusal:
        refuse_settings(SERVICE, vllm_config(**CASES[setting]))
    assert "or unset KVQUARRY_TARGET" in str(refusal.value)


def test_every_rule_has_a_case() -> None:
    assert len(CASES) == len(RULES)
    for rule in RULES:
        assert any(setting in rule.message() for setting in CASES), rule.setting


@pytest.mark.parametrize("settings", [SERVICE, INPROC])
def test_a_plain_configuration_is_accepted(settings: Settings) -> None:
    refuse_settings(settings, vllm_config())


@pytest.mark.parametrize(
    "changes",
    [CASES["prefix caching turned off"], CASES["--disable-hybrid-kv-cache-manager"]],
)
def test_what_concerns_states_is_fine_without_them(changes: dict[str, Any]) -> None:
    refuse_settings(SERVICE, vllm_config(model_config__is_hybrid=False, **changes))


def test_two_workers_cannot_share_a_core_inside_the_scheduler() -> None:
    config = vllm_config(parallel_config__world_size=2)
    with pytest.raises(SettingRefused, match=r"inproc:.*--tensor-parallel-size"):
        refuse_settings(INPROC, config)
    refuse_settings(SERVICE, config)
    assert len(INPROC_RULES) == 1


def test_the_engine_refuses_before_it_starts_a_worker() -> None:
    from kvquarry_vllm.gates.replacements import refusing_settings

    started = []
    init = refusing_settings(SERVICE)(lambda self, config: started.append(config))
    with pytest.raises(SettingRefused):
        init(object(), vllm_config(**CASES["--prefix-match-unit"]))
    assert started == []
    init(object(), vllm_config())
    assert len(started) == 1


@pytest.mark.parametrize("settings", [SERVICE, INPROC])
def test_a_retention_that_nobody_offers_is_refused_before_a_worker_starts(
    settings: Settings,
) -> None:
    from kvquarry_vllm.gates.replacements import refusing_settings

    started: list[Any] = []
    chosen = replace(settings, policies=PolicyNames("", "", "off", "every-4k"))
    init = refusing_settings(chosen)(lambda self, config: started.append(config))
    with pytest.raises(UsageError, match=r"'every-4k': N in every-N is a whole number"):
        init(object(), vllm_config())
    assert started == []
