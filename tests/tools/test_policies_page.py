"""``docs/policies.md``: what it shows of writing a policy runs, and is what the core calls."""

import ast
import inspect
import re
from collections.abc import Callable, Sequence
from importlib.metadata import EntryPoint
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from kvquarry_core.eviction import Eviction
from kvquarry_core.ids import ClassId, SlabId
from kvquarry_core.placement import Placement
from kvquarry_core.policies import ENTRY_POINT_GROUP, installed_policies
from kvquarry_core.relocation import Candidate, Relocation
from kvquarry_core.retention import ChunkEnding, Landmarks, Retention

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "policies.md").read_text()
PROTOCOLS = (Placement, Eviction, Relocation, Retention, ChunkEnding)


def called(protocol: type) -> set[str]:
    """Every method that a protocol adds, as the page writes it: without ``self``."""
    [definition] = ast.parse(dedent(inspect.getsource(protocol))).body
    assert isinstance(definition, ast.ClassDef)
    methods = [one for one in definition.body if isinstance(one, ast.FunctionDef)]
    for method in methods:
        del method.args.args[0]
    return {
        f"{protocol.__name__}.{one.name}({ast.unparse(one.args)}) -> {ast.unparse(one.returns)}"
        for one in methods
        if one.returns
    }


def test_the_page_shows_what_is_called() -> None:
    shown = re.findall(r"^[A-Z]\w+\.\w+\(.*\) -> .*$", PAGE, re.M)
    assert set(shown) == set().union(*map(called, PROTOCOLS))
    assert len(shown) == 9


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What the page's Python defines, where the example package is installed."""
    monkeypatch.syspath_prepend(str(DOCS / "examples/best-fit"))
    found: dict[str, Any] = {
        "BestFit": EntryPoint("", "kvquarry_best_fit:BestFit", ENTRY_POINT_GROUP).load(),
        "Candidate": Candidate,
        "Landmarks": Landmarks,
        "Sequence": Sequence,
    }
    for block in re.findall(r"^```python\n(.*?)^```$", PAGE, re.M | re.S):
        exec(block, found)
    return found


def test_the_policies_of_the_page_conform(names: dict[str, Any]) -> None:
    tests: dict[str, Callable[[], None]] = {
        name: one for name, one in names.items() if name.startswith("test_")
    }
    assert len(tests) == 3
    for run in tests.values():
        run()


def test_a_number_in_a_name_is_what_the_policy_is_made_with(
    names: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = EntryPoint("retention.powers-of-N", "somewhere:PowersOf", ENTRY_POINT_GROUP)
    monkeypatch.setattr(EntryPoint, "load", lambda _: names["PowersOf"])
    retention = installed_policies([entry]).make_retention("powers-of-3")
    assert isinstance(retention, ChunkEnding)
    lengths, landmarks = range(16, 16 * 30, 16), Landmarks((16 * 20,), (16 * 4,))
    assert retention.kept(lengths, landmarks) == [16 * units for units in (1, 3, 4, 9, 20, 27)]
    assert retention.first_end(lengths[3:], landmarks) == 16 * 9


def test_the_relocation_of_the_page_spares_what_is_cheaper_to_move(names: dict[str, Any]) -> None:
    relocation: Relocation = names["MoveLittle"]()
    little, more = (
        Candidate(SlabId(slab), ClassId(0), used_bytes=used_bytes, cached_bytes=0)
        for slab, used_bytes in ((1, 1 << 20), (0, 2 << 20))
    )
    assert relocation.spare([more, little], lost_bytes=2 << 20) == little
    assert relocation.spare([more, little], lost_bytes=1 << 20) is None
    assert list(relocation.choose([more, little], 1)) == [little]
