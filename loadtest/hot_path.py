"""The hot path: stock vLLM's KV cache manager and ours under the same requests.

Run from the repository's root: ``python -m loadtest.hot_path``. See docs/benchmarks.md.
"""

import argparse
import logging
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial

from loadtest.benchmarks.comparison import Comparison, as_rows, compare
from loadtest.benchmarks.hot_scenarios import DecodeSteps, Lives, Surroundings
from loadtest.benchmarks.made_requests import prepare_hashing
from loadtest.benchmarks.rounds import alternated
from loadtest.benchmarks.service_process import ServiceProcess, own_service
from loadtest.benchmarks.sides import Shape, quarry_side, stock_side
from loadtest.benchmarks.tables import say, table

_SPACING_S = 0.01
_HEAD = (
    *("shape", "scenario", "phase", "side", "p50 us", "p99 us", "ratio", "least", "most"),
    *("exchanges", "client cpu us", "service cpu us"),
)


@dataclass(frozen=True, slots=True)
class Extent:
    """How much is measured.

    Attributes:
        num_rounds: Rounds of stock, inproc, unix, stock.
        num_steps: Decode steps of a run.
        batch_sizes: Requests that decode together.
        prompts: Length of prompts, and how many of them in a run.
    """

    num_rounds: int
    num_steps: int
    batch_sizes: tuple[int, ...]
    prompts: tuple[tuple[int, int], ...]


_FULL = Extent(9, 320, (1, 8, 64, 256), ((500, 150), (4_000, 200), (32_000, 12)))
_SPACED = Extent(5, 96, (1, 8, 64, 256), ((500, 50), (4_000, 50), (32_000, 10)))
_QUICK = Extent(2, 20, (1, 8), ((500, 5), (4_000, 3)))


def main(argv: Sequence[str] | None = None) -> None:
    """Measure and print."""
    arguments = _parser().parse_args(argv)
    logging.disable(logging.WARNING)
    prepare_hashing()
    extent = _QUICK if arguments.quick else _SPACED if arguments.spaced else _FULL
    shapes = [Shape(arguments.shape)] if arguments.shape else list(Shape)
    pause_s = _SPACING_S if arguments.spaced else 0.0
    compared: list[Comparison] = []
    with own_service() as service:
        for shape in shapes:
            compared += _compare_shape(shape, extent, service, pause_s)
    spacing = f"spaced by {pause_s * 1e3:.0f} ms" if pause_s else "back to back"
    title = f"hot path, {spacing}; medians of {extent.num_rounds} alternated runs"
    document = {
        "benchmark": "hot_path",
        "num_rounds": extent.num_rounds,
        "pause_s": pause_s,
        "results": [asdict(one) for one in compared],
    }
    rows = [row for one in compared for row in as_rows(one)]
    say(table(title, _HEAD, rows), as_json=document if arguments.json else None)


def _compare_shape(
    shape: Shape, extent: Extent, service: ServiceProcess, pause_s: float
) -> list[Comparison]:
    stock = stock_side(shape)
    sides = [stock, quarry_side(shape, "inproc:"), quarry_side(shape, service.target), stock]
    around = Surroundings(service.cpu_s, pause_s)
    compared = []
    names = [side.name for side in sides]
    for scenario in _scenarios(extent):
        rounds = alternated(sides, extent.num_rounds, partial(scenario.run, around=around))
        compared += compare(shape.value, scenario.name, names, rounds)
    return compared


def _scenarios(extent: Extent) -> list[DecodeSteps | Lives]:
    decodes = [DecodeSteps(size, extent.num_steps) for size in extent.batch_sizes]
    lock_step = DecodeSteps(min(64, max(extent.batch_sizes)), extent.num_steps, stagger_tokens=0)
    lives = [
        Lives(kind, num_tokens, num_requests)
        for num_tokens, num_requests in extent.prompts
        for kind in ("miss", "hit")
    ]
    return [*decodes, lock_step, *lives]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m loadtest.hot_path", description=__doc__)
    parser.add_argument("--shape", choices=[one.value for one in Shape], help="only this one")
    parser.add_argument("--spaced", action="store_true", help="10 ms of rest between operations")
    parser.add_argument("--quick", action="store_true", help="a look whether it works")
    parser.add_argument("--json", action="store_true", help="JSON on stdout, the table on stderr")
    return parser


if __name__ == "__main__":
    main()
