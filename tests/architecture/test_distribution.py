"""The wheel holds what runs, and nothing else."""

import configparser
import zipfile

import pytest

from tests.architecture.repository import PACKAGES, ROOT, built_wheel


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    folder = tmp_path_factory.mktemp("dist")
    return zipfile.ZipFile(built_wheel(ROOT, folder))


def test_wheel_holds_every_module_of_every_package(wheel: zipfile.ZipFile) -> None:
    expected = {
        str(module.relative_to(package.parent))
        for package in PACKAGES
        for module in package.rglob("*.py")
    }
    assert expected == {name for name in wheel.namelist() if name.endswith(".py")}


def test_wheel_marks_every_checked_package_as_typed(wheel: zipfile.ZipFile) -> None:
    checked = [package.name for package in PACKAGES if package.name != "kvquarry_vllm"]
    assert {f"{name}/py.typed" for name in checked} <= set(wheel.namelist())


def test_entry_points_name_what_exists(wheel: zipfile.ZipFile) -> None:
    entry_points = configparser.ConfigParser()
    (listed,) = (name for name in wheel.namelist() if name.endswith("entry_points.txt"))
    entry_points.read_string(wheel.read(listed).decode())
    targets = [
        entry_points["console_scripts"]["kvquarry"],
        entry_points["vllm.general_plugins"]["kvquarry"],
    ]
    for target in targets:
        module, function = target.split(":")
        source = wheel.read(f"{module.replace('.', '/')}.py").decode()
        assert f"def {function}(" in source, target
