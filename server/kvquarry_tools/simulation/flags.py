"""The flags of ``kvquarry simulate``."""

import argparse
from pathlib import Path

from kvquarry_core.eviction import EVICTIONS
from kvquarry_core.placement import PLACEMENTS
from kvquarry_core.policies import PolicyNames
from kvquarry_core.relocation import RELOCATIONS
from kvquarry_tools.planning.flags import add_model_flags
from kvquarry_tools.simulation.retentions import RETENTIONS
from kvquarry_tools.simulation.settings import Baseline


def add_simulate_flags(parser: argparse.ArgumentParser) -> None:
    """Describe the flags of ``kvquarry simulate``."""
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument(
        "--trace",
        type=Path,
        metavar="FILE",
        help="requests in the Mooncake format, one JSON object a line; .gz and .xz too",
    )
    what.add_argument(
        "--churn",
        action="store_true",
        help="made-up requests of a queue that is never empty, without a prefix cache",
    )
    add_model_flags(parser)
    _add_policy_flags(parser)
    parser.add_argument(
        "--no-decode",
        action="store_true",
        help="prompts alone, one after another: the prefix cache and nothing else",
    )
    parser.add_argument(
        "--first", type=int, metavar="N", help="only the first N requests of the trace"
    )
    parser.add_argument(
        "--steps", type=int, default=24_000, metavar="N", help="steps of --churn [24000]"
    )
    parser.add_argument(
        "--seeds", type=int, default=4, metavar="N", help="runs of --churn, seeds 1 to N [4]"
    )
    parser.add_argument("--json", action="store_true", help="for scripts")
    parser.add_argument(
        "--plot", type=Path, metavar="FILE.png", help="draw what the pool held over time"
    )


def _add_policy_flags(parser: argparse.ArgumentParser) -> None:
    default = PolicyNames()
    parser.add_argument(
        "--placement",
        default=default.placement,
        metavar="NAME",
        help=f"where new blocks go: {', '.join(PLACEMENTS)} [{default.placement}]",
    )
    parser.add_argument(
        "--eviction",
        default=default.eviction,
        metavar="NAME",
        help=f"what is evicted: {', '.join(EVICTIONS)} [{default.eviction}]",
    )
    parser.add_argument(
        "--relocation",
        default=default.relocation,
        metavar="NAME",
        help=f"what may be moved for a large block: {', '.join(RELOCATIONS)} "
        f"[{default.relocation}]",
    )
    parser.add_argument(
        "--retention",
        default="boundaries",
        metavar="NAME",
        help=f"which checkpoints stay: {', '.join(RETENTIONS)} [boundaries]",
    )
    parser.add_argument(
        "--baseline",
        choices=[one.value for one in Baseline],
        help="replay on this in the place of kvquarry's pool",
    )
