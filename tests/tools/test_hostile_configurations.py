"""A configuration that was tampered with is planned for, or refused in words; it never crashes."""

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from kvquarry_tools.errors import InvalidInput
from kvquarry_tools.models import Serving, read_model
from kvquarry_tools.models.library import __file__ as library_file
from kvquarry_tools.planning.plain import plain_report
from kvquarry_tools.planning.report import make_report
from kvquarry_tools.planning.table import plan_table
from tests.strategies import examples

FOLDER = Path(library_file).parent / "configurations"
SHIPPED: list[dict[str, Any]] = [
    json.loads(path.read_text()) for path in sorted(FOLDER.iterdir()) if path.name != "names.json"
]
VALUES: list[object] = [None, 0, -1, 3, 7, 1.5, True, "x", [], ["x"], [1], {}]


def fields(config: dict[str, Any], path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The paths of all fields, nested ones included."""
    for name, value in config.items():
        yield (*path, name)
        if isinstance(value, dict):
            yield from fields(value, (*path, name))


@st.composite
def tampered(draw: st.DrawFn) -> dict[str, Any]:
    """A shipped configuration with one field that is another."""
    config: dict[str, Any] = copy.deepcopy(draw(st.sampled_from(SHIPPED)))
    *sections, name = draw(st.sampled_from(list(fields(config))))
    section = config
    for one in sections:
        section = section[one]
    section[name] = draw(st.sampled_from(VALUES))
    return config


@examples(100)
@given(tampered())
def test_it_is_planned_for_or_refused(config: dict[str, Any]) -> None:
    try:
        report = make_report(read_model("tampered", config).served(Serving()), 1 << 33)
    except InvalidInput:
        return
    assert plan_table(report)
    assert json.dumps(plain_report(report))
