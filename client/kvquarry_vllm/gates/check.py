"""Compares what is recorded of vLLM with the Python files of a vLLM, without importing it.

``python -m kvquarry_vllm.gates.check [--wheel-dir DIR]...`` checks the installed vLLM and each
unpacked wheel, prints what differs, and exits with 1 if anything does. A change is looked at by a
person; then ``--record`` writes down what it looks like now. To watch one more name, add it to the
list with an empty description and record.
"""

import argparse
import importlib.util
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from kvquarry_vllm.gates.signatures import describe, version_of

_HERE = Path(__file__).parent


class NotRecorded(LookupError):
    """Nothing is recorded of this vLLM version."""


@dataclass(frozen=True, slots=True)
class Difference:
    """A name that does not look as recorded.

    Attributes:
        name: As in :mod:`kvquarry_vllm.gates.signatures`.
        recorded: What it looked like.
        found: What it looks like; None if it is gone.
    """

    name: str
    recorded: str
    found: str | None

    def __str__(self) -> str:
        found = self.found or "nothing: it is gone"
        return f"  {self.name}\n    recorded: {self.recorded}\n    found:    {found}"


def recorded_file(version: str) -> Path:
    """Where the names of a version are recorded.

    Raises:
        NotRecorded: With the versions that are.
    """
    file = _HERE / f"recorded_{'_'.join(version.split('.')[:2])}.json"
    if not file.is_file():
        known = ", ".join(sorted(path.stem.removeprefix("recorded_") for path in _recorded_files()))
        raise NotRecorded(f"nothing is recorded of vLLM {version}, only of {known}")
    return file


def recorded_names(version: str) -> dict[str, str]:
    """What each watched name of a version looked like when it was recorded."""
    names: dict[str, str] = json.loads(recorded_file(version).read_text(encoding="utf-8"))
    return names


def differences(root: Path) -> list[Difference]:
    """Where the vLLM below ``root`` differs from what is recorded of its version.

    Raises:
        FileNotFoundError: There is no vLLM below it.
        NotRecorded: Nothing is recorded of its version.
    """
    return [
        Difference(name, recorded, found)
        for name, recorded in recorded_names(version_of(root)).items()
        if (found := describe(root, name)) != recorded
    ]


def record(root: Path) -> None:
    """Write down what the watched names look like below ``root``; those that are gone stay."""
    version = version_of(root)
    names = {
        name: describe(root, name) or recorded
        for name, recorded in sorted(recorded_names(version).items())
    }
    recorded_file(version).write_text(json.dumps(names, indent=1) + "\n", encoding="utf-8")


def installed_root() -> Path | None:
    """The folder that holds the installed vllm; found without importing it."""
    spec = importlib.util.find_spec("vllm")
    return Path(spec.origin).parents[1] if spec is not None and spec.origin else None


def main(arguments: Sequence[str] | None = None) -> int:
    """Run from the command line: 0 if all is as recorded, 1 if not, 2 if it cannot be told."""
    parser = argparse.ArgumentParser(prog="python -m kvquarry_vllm.gates.check")
    parser.add_argument("--wheel-dir", type=Path, action="append", default=[], metavar="DIR")
    parser.add_argument("--record", action="store_true", help="write down what is found")
    options = parser.parse_args(arguments)
    roots = [*options.wheel_dir]
    if (installed := installed_root()) is not None:
        roots.append(installed)
    try:
        if options.record:
            for root in roots:
                record(root)
        return max([_report(root) for root in roots], default=0)
    except (FileNotFoundError, NotRecorded) as error:
        print(error, file=sys.stderr)
        return 2


def _report(root: Path) -> int:
    version = version_of(root)
    found = differences(root)
    if not found:
        print(f"vLLM {version} in {root}: {len(recorded_names(version))} names as recorded")
        return 0
    print(f"vLLM {version} in {root}: {len(found)} names differ from what is recorded")
    for difference in found:
        print(difference)
    return 1


def _recorded_files() -> list[Path]:
    return list(_HERE.glob("recorded_*.json"))


if __name__ == "__main__":
    sys.exit(main())
