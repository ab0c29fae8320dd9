"""The repository as tests see it: its files, the imports in them, and what is built of it."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

PACKAGES = (
    ROOT / "proto/gen/kvquarry",
    ROOT / "server/kvquarry_core",
    ROOT / "server/kvquarry_server",
    ROOT / "server/kvquarry_tools",
    ROOT / "client/kvquarry_client",
    ROOT / "client/kvquarry_vllm",
)


def project_files() -> list[Path]:
    """Every file that git tracks or would track: what others get to see."""
    listing = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    paths = (ROOT / name for name in listing.stdout.split("\0") if name)
    return [path for path in paths if path.is_file()]


def written_modules(package: Path) -> list[Path]:
    """A package's modules that people write; generated ones are left out."""
    return [path for path in sorted(package.rglob("*.py")) if "_pb2" not in path.name]


def syntax_tree(module: Path) -> ast.Module:
    """A module parsed, with its path for messages."""
    return ast.parse(module.read_text(), filename=str(module))


def imported_names(module: Path) -> Iterator[str]:
    """The dotted names that a module imports, wherever in it they stand."""
    for node in ast.walk(syntax_tree(module)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def built_wheel(source: Path, folder: Path) -> Path:
    """The wheel that a copy of the repository gives, put into a folder."""
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)],
        cwd=source,
        check=True,
        capture_output=True,
    )
    (built,) = folder.glob("kvquarry-*.whl")
    return built
