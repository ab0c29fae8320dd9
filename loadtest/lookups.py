"""Lookups in a pool of one kind: the short way, and the general one that it stands in for.

Run from the repository's root: ``python -m loadtest.lookups``. See docs/benchmarks.md.
"""

import argparse
import time
from collections.abc import Callable, Sequence

from kvquarry_core.coordinator import Coordinator, Hit
from kvquarry_core.ids import BlockHash, BlockId, KindId
from kvquarry_core.plan import GroupKind, GroupSpec, make_plan
from kvquarry_core.prefix_index import PrefixIndex
from loadtest.benchmarks.rounds import alternated
from loadtest.benchmarks.samples import spread
from loadtest.benchmarks.tables import say, table

_BLOCK_TOKENS = 16
_NUM_ROUNDS = 7
_NUM_LOOKUPS = 300

_HEAD = ("tokens", "short us", "general us", "ratio", "least", "most")

_Lookup = Callable[[PrefixIndex, Sequence[BlockHash], int], Hit]


def main(argv: Sequence[str] | None = None) -> None:
    """Measure and print."""
    arguments = _parser().parse_args(argv)
    rows = [_compare(num_tokens) for num_tokens in (500, 4_000, 32_000)]
    title = f"a lookup that hits everything; medians of {_NUM_ROUNDS} alternated rounds"
    results = [dict(zip(_HEAD, row, strict=True)) for row in rows]
    document = {"benchmark": "lookups", "num_rounds": _NUM_ROUNDS, "results": results}
    say(table(title, _HEAD, rows), as_json=document if arguments.json else None)


def _compare(num_tokens: int) -> list[float]:
    """Tokens found, microseconds of either way, and the ratio within one round."""
    spec = GroupSpec(GroupKind.FULL_ATTENTION, _BLOCK_TOKENS, page_bytes=64, num_layers=1)
    coordinator = Coordinator(make_plan((spec,), 64 * (num_tokens // _BLOCK_TOKENS + 2)))
    hashes = [BlockHash(b"%032d" % number) for number in range(num_tokens // _BLOCK_TOKENS)]
    index = PrefixIndex(num_kinds=1)
    index.insert(KindId(0), hashes, [BlockId(number + 1) for number in range(len(hashes))])
    sides = (coordinator.longest_hit, coordinator.reconcile)
    rounds = alternated(sides, _NUM_ROUNDS, lambda lookup: _time_us(lookup, index, hashes))
    short, general = (spread(column) for column in zip(*rounds, strict=True))
    ratio = spread([first / second for first, second in rounds])
    return [
        len(hashes) * _BLOCK_TOKENS,
        round(short.median, 2),
        round(general.median, 2),
        *ratio.rounded(2),
    ]


def _time_us(lookup: _Lookup, index: PrefixIndex, hashes: Sequence[BlockHash]) -> float:
    """Microseconds of one lookup, of this thread's own time."""
    start = time.thread_time()
    for _ in range(_NUM_LOOKUPS):
        lookup(index, hashes, len(hashes) * _BLOCK_TOKENS)
    return (time.thread_time() - start) / _NUM_LOOKUPS * 1e6


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m loadtest.lookups", description=__doc__)
    parser.add_argument("--json", action="store_true", help="JSON on stdout, the table on stderr")
    return parser


if __name__ == "__main__":
    main()
