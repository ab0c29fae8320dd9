"""The entry point: nothing without a target, one gate per version with one."""

import importlib.metadata
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import vllm

from kvquarry_vllm import plugin

ROOT = Path(__file__).parents[2]


def run(code: str, **environ: str) -> str:
    """What `code` prints in a process of its own, with these KVQUARRY_* variables and no others."""
    inherited = {k: v for k, v in os.environ.items() if not k.startswith("KVQUARRY_")}
    path = os.pathsep.join(entry for entry in sys.path if entry)
    result = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code],
        env=inherited | {"PYTHONPATH": path} | environ,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_the_entry_point_names_the_plugin() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    entry_points = project["entry-points"]["vllm.general_plugins"]
    found = importlib.metadata.EntryPoint("kvquarry", entry_points["kvquarry"], "")
    assert found.load() is plugin.register


UNTOUCHED = """
import os, sys
import vllm
before, finders = set(sys.modules), list(sys.meta_path)
from kvquarry_vllm.plugin import register
register()
os.environ["KVQUARRY_TARGET"] = ""
register()
loaded = set(sys.modules) - before
houses = sorted({name.partition(".")[0] for name in loaded} - set(sys.stdlib_module_names))
print(houses, [name for name in loaded if "gates" in name], sys.meta_path == finders)
"""


@pytest.mark.vllm
def test_without_a_target_nothing_is_loaded_or_hooked() -> None:
    pure = ["kvquarry_client", "kvquarry_core", "kvquarry_vllm"]
    assert run(UNTOUCHED) == f"{pure} [] True\n"


HOOKED = """
import importlib
from kvquarry_vllm.gates import v0_32
from kvquarry_vllm.gates.hooks import original_of
from kvquarry_vllm.plugin import register
from kvquarry_vllm.settings import read_settings

register()
register()
for hook in v0_32.hooks(read_settings()):
    found = importlib.import_module(hook.module)
    for name in hook.name.split("."):
        found = getattr(found, name)
    original = original_of(found)
    print(hook.name, original is not None, original_of(original) is None)
"""


@pytest.mark.vllm
def test_registering_twice_hooks_everything_once() -> None:
    lines = run(HOOKED, KVQUARRY_TARGET="unix:/run/kvquarry.sock").splitlines()
    assert len(lines) >= 12
    assert [line for line in lines if not line.endswith(" True True")] == []


LOGGED = """
import logging
import vllm.logger
from kvquarry_vllm.plugin import register

register()
register()
vllm.logger._configure_vllm_root_logger()
logging.getLogger("kvquarry_client.lasting_stream").info("told %s", "once")
logging.getLogger("kvquarry_client.lasting_stream").debug("too much")
"""


@pytest.mark.vllm
def test_the_clients_lines_are_written_as_those_of_vllm() -> None:
    told = run(LOGGED, KVQUARRY_TARGET="unix:/run/kvquarry.sock", VLLM_LOGGING_COLOR="0")
    (line,) = told.splitlines()
    assert re.fullmatch(
        r"\(MainProcess pid=\d+\) INFO \d\d-\d\d \d\d:\d\d:\d\d \[.*\] told once", line
    )


@pytest.mark.parametrize("version", ["0.31.2", "0.34.0", "1.0", "dev"])
def test_an_unknown_version_is_refused_with_the_known_ones(version: str) -> None:
    with pytest.raises(plugin.UnsupportedVersion, match=r"0\.32 and 0\.33.*" + version):
        plugin.gate_for(version)


@pytest.mark.parametrize("version", ["0.32.0", "0.32.1", "0.32.0+cpu", vllm.__version__])
def test_a_build_of_a_known_version_has_a_gate(version: str) -> None:
    assert plugin.gate_for(version) == "kvquarry_vllm.gates.v0_32"


def test_the_gate_follows_the_installed_version(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KVQUARRY_TARGET", "inproc:")
    monkeypatch.setattr(vllm, "__version__", "0.7.0")
    with pytest.raises(plugin.UnsupportedVersion):
        plugin.register()


def test_a_setting_that_makes_no_sense_stops_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KVQUARRY_TARGET", "nowhere")
    with pytest.raises(ValueError, match="KVQUARRY_TARGET"):
        plugin.register()
