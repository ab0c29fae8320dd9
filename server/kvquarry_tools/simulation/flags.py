"""The flags of ``kvquarry simulate``."""

import argparse
from pathlib import Path

from kvquarry_core.policies import PolicyNames, installed_policies
from kvquarry_tools.planning.flags import add_model_flags
from kvquarry_tools.simulation.checkpoints import offered_retentions
from kvquarry_tools.simulation.settings import CHURN_BASELINES, Baseline

DEFAULT_RETENTION = "boundaries"
DEFAULT_STEPS = 24_000
DEFAULT_SEEDS = 4


def add_simulate_flags(parser: argparse.ArgumentParser) -> None:
    """Describe the flags of ``kvquarry simulate``.

    One that was not given is None, or False: some may not be given beside others.
    """
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
        "--steps", type=int, metavar="N", help=f"steps of --churn [{DEFAULT_STEPS}]"
    )
    parser.add_argument(
        "--seeds",
        type=int,
        metavar="N",
        help=f"runs of --churn, seeds 1 to N [{DEFAULT_SEEDS}]",
    )
    parser.add_argument("--json", action="store_true", help="for scripts")
    parser.add_argument(
        "--plot", type=Path, metavar="FILE.png", help="draw what the pool held over time"
    )


def _add_policy_flags(parser: argparse.ArgumentParser) -> None:
    offered, default = installed_policies(), PolicyNames()
    parser.add_argument(
        "--placement",
        metavar="NAME",
        help=f"where new blocks go: {', '.join(offered.placements)} [{default.placement}]",
    )
    parser.add_argument(
        "--eviction",
        metavar="NAME",
        help=f"what is evicted: {', '.join(offered.evictions)} [{default.eviction}]",
    )
    parser.add_argument(
        "--relocation",
        metavar="NAME",
        help=f"what may be moved for a large block: {', '.join(offered.relocations)} "
        f"[{default.relocation}]",
    )
    parser.add_argument(
        "--retention",
        metavar="NAME",
        help=f"which checkpoints stay: {', '.join(offered_retentions())} [{DEFAULT_RETENTION}]",
    )
    of_replay = [one.value for one in Baseline]
    parser.add_argument(
        "--baseline",
        choices=list(dict.fromkeys([*of_replay, *CHURN_BASELINES])),
        metavar="NAME",
        help=f"run on this in the place of kvquarry's pool: {', '.join(of_replay)}; with --churn "
        f"{', '.join(CHURN_BASELINES)}",
    )
