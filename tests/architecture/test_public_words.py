"""What others get to read names no machine, and the code has no drawers."""

import ast
import re
from pathlib import Path

import pytest

from tests.architecture.repository import (
    PACKAGES,
    ROOT,
    project_files,
    syntax_tree,
    written_modules,
)

# Home and work folders of somebody's machine, and addresses of package indexes.
OF_ONE_MACHINE = re.compile(
    r"(?<![\w.$}/-])/(?:root|home|Users|work|workspace)/\w"
    r"|\b(?:pypi|npmjs|pythonhosted)\.(?:org|com|net)\b"
    r"|file:///"
)

# Names that say where code was put, not what it is. The plug-in is left out: it replaces classes
# of vLLM and keeps their names.
DRAWER = re.compile(r"(?:Manager|Helper|Utils?|Handler)$|^_?Base(?=[A-Z])")


def test_no_file_names_a_place_on_one_machine() -> None:
    found = []
    for path in project_files():
        if path == Path(__file__):
            continue
        try:
            lines = path.read_text().splitlines()
        except UnicodeDecodeError:
            continue
        found += [
            f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
            for number, line in enumerate(lines, start=1)
            if OF_ONE_MACHINE.search(line)
        ]
    assert found == []


@pytest.mark.parametrize("line", ["cd /home/me/kvquarry", "see /work/x", "https://pypi.org/simple"])
def test_a_place_on_one_machine_is_recognised(line: str) -> None:
    assert OF_ONE_MACHINE.search(line) is not None


@pytest.mark.parametrize("line", ["unix:/run/kvquarry/kvquarry.sock", "$ROOT/work/x", "a/home/b"])
def test_a_place_on_every_machine_is_let_through(line: str) -> None:
    assert OF_ONE_MACHINE.search(line) is None


def test_no_class_is_named_for_a_drawer() -> None:
    found = [
        f"{module.relative_to(ROOT)}: {node.name}"
        for package in PACKAGES
        if package.name != "kvquarry_vllm"
        for module in written_modules(package)
        for node in ast.walk(syntax_tree(module))
        if isinstance(node, ast.ClassDef) and DRAWER.search(node.name)
    ]
    assert found == []


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.name)
def test_a_package_reads_the_environment_in_its_settings_only(package: Path) -> None:
    readers = {
        str(module.relative_to(package))
        for module in written_modules(package)
        if "demo" not in module.relative_to(package).parts  # starts processes, so it passes one on
        if reads_environment(syntax_tree(module))
    }
    # Besides: what tells gRPC something the only way it can be told.
    assert readers <= {"settings.py", "polling.py"}


def reads_environment(tree: ast.Module) -> bool:
    """Whether a module touches the process environment in any of the usual ways."""
    return any(
        isinstance(node, ast.Attribute) and node.attr in {"environ", "getenv"}
        for node in ast.walk(tree)
    )
