"""An environment like the image's: the wheel and what it declares, linked, and nothing else."""

import importlib.metadata
import subprocess
import sys
import venv
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name


@dataclass(frozen=True, slots=True)
class BareEnvironment:
    """A virtual environment with the service in it."""

    folder: Path

    @property
    def python(self) -> str:
        """Its interpreter."""
        return str(self.folder / "bin/python")

    @property
    def kvquarry(self) -> str:
        """The command that the wheel installs."""
        return str(self.folder / "bin/kvquarry")


def install(wheel: Path, folder: Path) -> BareEnvironment:
    """Make an environment with a wheel's `server` extra; nothing is fetched."""
    venv.create(folder, with_pip=False)
    environment = BareEnvironment(folder)
    pip = [sys.executable, "-m", "pip", "--python", environment.python, "install"]
    subprocess.run(
        [*pip, "--quiet", "--no-deps", "--no-index", "--no-compile", str(wheel)], check=True
    )
    (packages,) = folder.glob("lib/python*/site-packages")
    (metadata,) = packages.glob("kvquarry-*.dist-info")
    declared = importlib.metadata.Distribution.at(metadata).requires or []
    for name in sorted(_needed(declared, extra="server")):
        _link(importlib.metadata.distribution(name), packages)
    return environment


def _needed(requirements: Iterable[str], *, extra: str) -> set[str]:
    """The distributions that requirements ask for, and those that these ask for in turn."""
    found: set[str] = set()
    waiting = [(Requirement(line), extra) for line in requirements]
    while waiting:
        needed, wanted = waiting.pop()
        name = canonicalize_name(needed.name)
        if name in found or not (
            needed.marker is None or needed.marker.evaluate({"extra": wanted})
        ):
            continue
        found.add(name)
        waiting += [(Requirement(line), "") for line in importlib.metadata.requires(name) or []]
    return found


def _link(distribution: importlib.metadata.Distribution, packages: Path) -> None:
    for file in distribution.files or []:
        if file.parts[0] == "..":  # scripts
            continue
        link = packages / file
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(Path(str(distribution.locate_file(file))))
