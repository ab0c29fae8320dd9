"""A picture of what the pool held over time."""

from collections.abc import Sequence
from pathlib import Path

from kvquarry_tools.errors import InvalidOption
from kvquarry_tools.simulation.replay.occupancy import Occupancy

_LABELS = ("running content", "internal fragmentation", "cached", "external fragmentation")
_COLOURS = ("#26547c", "#ef476f", "#8fb8de", "#ffd166")


def draw(samples: Sequence[Occupancy], title: str, path: Path) -> None:
    """Write the picture; its format follows from the name.

    Raises:
        InvalidOption: matplotlib is missing, there is nothing to draw, or the file cannot be
            written.
    """
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg  # noqa: PLC0415 - an extra
        from matplotlib.figure import Figure  # noqa: PLC0415 - an extra
    except ImportError:
        raise InvalidOption(
            "--plot needs matplotlib; install it with: pip install 'kvquarry[tools]'"
        ) from None
    if not samples:
        raise InvalidOption("--plot has nothing to draw: this baseline has no pool")
    figure = Figure(figsize=(8, 4), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    shares = [(one.content, one.internal, one.cached, one.external) for one in samples]
    times = [one.now_s for one in samples]
    axes.stackplot(times, *zip(*shares, strict=True), labels=_LABELS, colors=_COLOURS)
    axes.set(title=title, xlabel="seconds", ylabel="share of the pool", ylim=(0, 1))
    axes.margins(x=0)
    figure.legend(loc="outside lower center", ncols=len(_LABELS), frameon=False)
    try:
        figure.savefig(path, dpi=120)
    except (OSError, ValueError) as error:
        raise InvalidOption(f"--plot cannot write {path}: {error}") from error
