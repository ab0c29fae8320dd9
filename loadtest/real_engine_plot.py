"""Line plots as SVG, for which nothing has to be installed."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import count, takewhile
from typing import Final

_WIDTH: Final = 460
_HEIGHT: Final = 300
_LEFT, _RIGHT, _TOP, _BOTTOM = 58, 14, 34, 44
_LEGEND_LINE: Final = 18
#: Told apart by people who see colours differently too (Okabe and Ito).
_COLOURS: Final = ("#000000", "#E69F00", "#0072B2", "#009E73", "#CC79A7")
_MOST_TICKS: Final = 7

Points = Sequence[tuple[float, float]]


@dataclass(frozen=True, slots=True)
class Panel:
    """One pair of axes, both from zero, and what is drawn between them, by name."""

    title: str
    x_title: str
    lines: Mapping[str, Points]

    @property
    def end(self) -> tuple[float, float]:
        """Where the axes end."""
        points = [point for line in self.lines.values() for point in line]
        return max(x for x, _ in points) * 1.02, max(y for _, y in points) * 1.05


def svg_of(panels: Sequence[Panel]) -> str:
    """The panels beside each other over one legend; all have lines of the same names."""
    width = _WIDTH * len(panels)
    names = list(panels[0].lines)
    height = _HEIGHT + _LEGEND_LINE * len(names) + 8
    size = f'viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="12">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
    ]
    for index, panel in enumerate(panels):
        parts += [f'<g transform="translate({index * _WIDTH} 0)">', *_panel(panel), "</g>"]
    parts += [*_legend(names), "</svg>", ""]
    return "\n".join(parts)


def _panel(panel: Panel) -> Iterator[str]:
    x_end, y_end = panel.end
    bottom, right = _HEIGHT - _BOTTOM, _WIDTH - _RIGHT

    def place(x: float, y: float) -> tuple[float, float]:
        across, up = x / x_end * (right - _LEFT), y / y_end * (bottom - _TOP)
        return round(_LEFT + across, 1), round(bottom - up, 1)

    yield _text(_LEFT, 20, panel.title, 'font-weight="bold"')
    yield _text((_LEFT + right) / 2, _HEIGHT - 8, panel.x_title, 'text-anchor="middle"')
    for tick in _ticks(y_end):
        _, y = place(0, tick)
        yield f'<path d="M{_LEFT} {y}H{right}" stroke="#ddd"/>'
        yield _text(_LEFT - 6, y + 4, f"{tick:g}", 'text-anchor="end"')
    for tick in _ticks(x_end):
        x, _ = place(tick, 0)
        yield _text(x, bottom + 16, f"{tick:g}", 'text-anchor="middle"')
    yield f'<path d="M{_LEFT} {_TOP}V{bottom}H{right}" fill="none" stroke="#444"/>'
    for line, colour in zip(panel.lines.values(), _COLOURS, strict=False):
        places = [place(x, y) for x, y in line]
        path = " ".join(f"{x},{y}" for x, y in places)
        yield f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>'
        yield from (f'<circle cx="{x}" cy="{y}" r="3" fill="{colour}"/>' for x, y in places)


def _legend(names: Sequence[str]) -> Iterator[str]:
    for row, (name, colour) in enumerate(zip(names, _COLOURS, strict=False)):
        y = _HEIGHT + _LEGEND_LINE * row + 10
        yield f'<path d="M{_LEFT} {y}h24" stroke="{colour}" stroke-width="2"/>'
        yield _text(_LEFT + 32, y + 4, name, "")


def _ticks(end: float) -> list[float]:
    """Multiples of 1, 2 or 5 times a power of ten, few enough to read."""
    steps = (digit * 10.0**power for power in count(-6) for digit in (1, 2, 5))
    step = next(step for step in steps if end / step < _MOST_TICKS)
    return list(takewhile(lambda tick: tick <= end, (round(step * n, 6) for n in count())))


def _text(x: float, y: float, text: str, attributes: str) -> str:
    return f'<text x="{x}" y="{y}" {attributes}>{escape(text)}</text>'
