"""What the environment says, and what it cannot say."""

from types import SimpleNamespace

import pytest

from kvquarry_core.policies import PolicyNames
from kvquarry_vllm.settings import InvalidSetting, Settings, read_settings


def settings_of(**environ: str) -> Settings:
    settings = read_settings({"KVQUARRY_TARGET": "unix:/run/kvquarry.sock"} | environ)
    assert settings is not None
    return settings


@pytest.mark.parametrize("environ", [{}, {"KVQUARRY_TARGET": ""}, {"KVQUARRY_ENGINE": "a b"}])
def test_without_a_target_there_is_nothing_to_set(environ: dict[str, str]) -> None:
    assert read_settings(environ) is None


def test_all_but_the_target_has_a_default() -> None:
    settings = settings_of()
    assert settings.target.grpc_address == "unix:/run/kvquarry.sock"
    assert settings.connect_timeout_s == 300
    assert settings.engine


def test_engines_without_a_name_get_one_each_even_with_the_same_process_id() -> None:
    assert len({settings_of().engine for _ in range(8)}) > 1


def test_settings_are_taken_from_the_environment() -> None:
    settings = settings_of(KVQUARRY_ENGINE="left", KVQUARRY_CONNECT_TIMEOUT_S="2.5")
    assert (settings.engine, settings.connect_timeout_s) == ("left", 2.5)


def test_policies_that_are_not_chosen_are_left_to_the_service_but_blocks_stay() -> None:
    assert settings_of().policies == PolicyNames("", "", "off", "")
    chosen = settings_of(KVQUARRY_EVICTION="session", KVQUARRY_RETENTION="every-4096")
    assert chosen.policies == PolicyNames("", "session", "off", "every-4096")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("KVQUARRY_TARGET", "nowhere"),
        ("KVQUARRY_ENGINE", "two words"),
        ("KVQUARRY_ENGINE", "ü"),
        ("KVQUARRY_ENGINE", "x" * 246),
        ("KVQUARRY_CONNECT_TIMEOUT_S", "soon"),
        ("KVQUARRY_CONNECT_TIMEOUT_S", "0"),
        ("KVQUARRY_CONNECT_TIMEOUT_S", "-1"),
        ("KVQUARRY_CONNECT_TIMEOUT_S", "inf"),
        ("KVQUARRY_CONNECT_TIMEOUT_S", "nan"),
        ("KVQUARRY_PIN_CAP", "1.5"),
        ("KVQUARRY_PIN_CAP", "nan"),
        ("KVQUARRY_PIN_CAP", "a quarter"),
    ],
)
def test_a_setting_that_makes_no_sense_is_named(name: str, value: str) -> None:
    with pytest.raises(InvalidSetting, match=name):
        settings_of(**{name: value})


def test_the_share_that_pins_may_hold_is_for_a_pool_in_process() -> None:
    assert settings_of().pin_cap == 0.25
    assert settings_of(KVQUARRY_PIN_CAP="0").pin_cap == 0


def test_data_parallel_engines_have_names_of_their_own() -> None:
    settings = settings_of(KVQUARRY_ENGINE="left")
    names = [
        settings.engine_of(SimpleNamespace(data_parallel_index=index, data_parallel_size=2))
        for index in range(2)
    ]
    assert names == ["left-dp0", "left-dp1"]


def test_an_engine_alone_keeps_its_name() -> None:
    config = SimpleNamespace(data_parallel_index=0, data_parallel_size=1)
    assert settings_of(KVQUARRY_ENGINE="left").engine_of(config) == "left"


def test_an_independent_data_parallel_engine_is_told_apart_by_its_index() -> None:
    """vLLM resets the size of engines that share no experts, and leaves the index."""
    config = SimpleNamespace(data_parallel_index=3, data_parallel_size=1)
    assert settings_of(KVQUARRY_ENGINE="left").engine_of(config) == "left-dp3"
