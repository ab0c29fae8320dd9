"""Results for people, and for scripts."""

import json
import sys
from collections.abc import Callable, Sequence
from typing import Any


def table(title: str, head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Columns in line: text to the left, numbers to the right."""
    texts = [list(head), *([_text(cell) for cell in row] for row in rows)]
    widths = [max(len(row[column]) for row in texts) for column in range(len(head))]
    numeric = [
        all(not isinstance(row[column], str) for row in rows) if rows else False
        for column in range(len(head))
    ]
    lines = [
        "  ".join(
            cell.rjust(width) if is_number else cell.ljust(width)
            for cell, width, is_number in zip(row, widths, numeric, strict=True)
        ).rstrip()
        for row in texts
    ]
    lines.insert(1, "  ".join("-" * width for width in widths))
    return "\n".join([title, *lines, ""])


def say(text: str, *, as_json: dict[str, Any] | None) -> None:
    """The table on standard output; with ``as_json`` that goes there and the table to stderr."""
    if as_json is None:
        print(text)
        return
    print(text, file=sys.stderr)
    print(json.dumps(as_json, indent=1))


def progress(what: str) -> Callable[[str], None]:
    """Says on standard error how far something has come."""

    def tell(how_far: str) -> None:
        print(f"{what}: {how_far}", file=sys.stderr, flush=True)

    return tell


def _text(cell: object) -> str:
    if cell is None:
        return "-"
    if isinstance(cell, float):
        return f"{cell:.2f}" if abs(cell) < 10 else f"{cell:,.0f}"
    return f"{cell:,}" if isinstance(cell, int) else str(cell)
