"""What is published of real models, to hold the tools' figures against.

The file is the core tests' own: layer counts and bytes at tensor parallel size 1.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kvquarry_tools.models import Serving

_FILE = Path(__file__).parents[1] / "core/data/models.json"
#: Published entries that stand for several models, or that name a model otherwise.
_NAMES = {
    "Qwen3.6-35B-A3B / Qwen3.5-35B-A3B": ("Qwen3.6-35B-A3B", "Qwen3.5-35B-A3B"),
    "Qwen3.5-4B/9B": ("Qwen3.5-4B", "Qwen3.5-9B"),
    "Nemotron-Nano-9B/12B-v2": ("Nemotron-Nano-9B-v2",),
}
#: Published with states of 16 bits, where vLLM 0.32 makes them float32 unless told otherwise.
_STATES_OF_16_BITS = {"Nemotron-H-56B-Base-8K"}


@dataclass(frozen=True)
class Published:
    """One model by one of its names, how it is served, and what is published of it."""

    name: str
    serving: Serving
    figures: dict[str, Any]


def published_models() -> list[Published]:
    """Every entry, once for each name."""
    entries = json.loads(_FILE.read_text())["models"]
    return [
        Published(name, _serving(name), {key: entry[key] for key in entry if key != "model"})
        for entry in entries
        for name in _NAMES.get(entry["model"], (entry["model"],))
    ]


def _serving(name: str) -> Serving:
    return Serving(state_dtype="bfloat16" if name in _STATES_OF_16_BITS else "auto")
