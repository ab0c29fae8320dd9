"""A package as pip would leave it, without pip."""

from collections.abc import Mapping
from pathlib import Path


def note_installed(folder: Path, name: str, entry_points: Mapping[str, Mapping[str, str]]) -> None:
    """Say in ``folder`` that a package is installed, and what it offers; groups, names, objects."""
    metadata = folder / f"{name.replace('-', '_')}-0.1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 0.1.0\n")
    offered = [
        line
        for group, entries in entry_points.items()
        for line in (f"[{group}]", *(f"{name} = {value}" for name, value in entries.items()))
    ]
    (metadata / "entry_points.txt").write_text("\n".join(offered))
