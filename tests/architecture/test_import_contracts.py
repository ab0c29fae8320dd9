"""The contracts of pyproject.toml hold, and each of them can break."""

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.architecture.repository import PACKAGES, ROOT


def lint_imports(root: Path) -> subprocess.CompletedProcess[str]:
    """Run import-linter on the packages below `root`, wherever else they are installed."""
    search_path = [str(root / package.relative_to(ROOT).parent) for package in PACKAGES]
    return subprocess.run(
        [Path(sys.executable).with_name("lint-imports"), "--no-cache", "--no-logo"],
        cwd=root,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(search_path), "COLUMNS": "200"},
        capture_output=True,
        text=True,
        check=False,
    )


@dataclass(frozen=True)
class Trespass:
    """A line that must not stand in a file, and the name of the contract that says so."""

    file: str
    line: str
    contract: str


TRESPASSES = [
    Trespass("server/kvquarry_core/ids.py", "import grpc", "The core does no I/O"),
    Trespass("server/kvquarry_core/ids.py", "import time", "The core does no I/O"),
    Trespass("server/kvquarry_core/ids.py", "import kvquarry.v1alpha", "Imports run one way"),
    Trespass("server/kvquarry_core/ids.py", "import kvquarry_core.plan", "The core reads top"),
    Trespass("server/kvquarry_core/unplaced.py", "", "The core reads top"),
    Trespass("server/kvquarry_server/__init__.py", "import kvquarry_client", "Imports run one way"),
    Trespass("server/kvquarry_server/__init__.py", "import vllm", "Only the plug-in imports vllm"),
    Trespass("server/kvquarry_server/__init__.py", "import torch", "The service has no torch"),
    Trespass("server/kvquarry_tools/errors.py", "import kvquarry.v1alpha", "Imports run one way"),
    Trespass("server/kvquarry_tools/errors.py", "import kvquarry_server", "Imports run one way"),
    Trespass(
        "server/kvquarry_tools/errors.py", "import kvquarry_tools.models", "The tools read top"
    ),
    Trespass("server/kvquarry_tools/errors.py", "import vllm", "Only the plug-in imports vllm"),
    Trespass("client/kvquarry_client/__init__.py", "import kvquarry_server", "Imports run one way"),
    Trespass("client/kvquarry_client/__init__.py", "import torch", "The service has no torch"),
    Trespass("client/kvquarry_vllm/__init__.py", "import kvquarry_server", "The plug-in knows"),
]


def test_imports_keep_every_contract() -> None:
    result = lint_imports(ROOT)
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.parametrize("trespass", TRESPASSES, ids=lambda t: f"{t.file}: {t.line or 'no floor'}")
def test_a_trespass_breaks_its_contract(trespass: Trespass, tmp_path: Path) -> None:
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    for package in PACKAGES:
        shutil.copytree(package, tmp_path / package.relative_to(ROOT))
    with (tmp_path / trespass.file).open("a") as file:
        file.write(f"\n{trespass.line}\n")

    result = lint_imports(tmp_path)

    assert result.returncode == 1, result.stdout + result.stderr
    broken = [line for line in result.stdout.splitlines() if " BROKEN" in line]
    assert any(line.startswith(trespass.contract) for line in broken), result.stdout
