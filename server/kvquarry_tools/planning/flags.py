"""The flags of ``kvquarry plan``."""

import argparse

from kvquarry_tools.models.dtypes import AUTO, KV_BYTES, STATE_BYTES
from kvquarry_tools.models.serving import DEFAULT_BLOCK_TOKENS


def add_model_flags(parser: argparse.ArgumentParser) -> None:
    """Describe the flags that say which model is served, and how."""
    parser.add_argument(
        "--model",
        required=True,
        metavar="CONFIG.json|NAME",
        help="a Hugging Face config.json, the folder that holds it, or a known name",
    )
    parser.add_argument(
        "--memory",
        required=True,
        metavar="SIZE",
        help="memory of one worker's KV cache, as in 20GiB",
    )
    parser.add_argument(
        "--block-size",
        type=int,
        default=DEFAULT_BLOCK_TOKENS,
        metavar="TOKENS",
        help=f"tokens per block [{DEFAULT_BLOCK_TOKENS}]",
    )
    parser.add_argument(
        "--tp", type=int, default=1, metavar="N", help="workers that share every layer [1]"
    )
    parser.add_argument(
        "--kv-dtype",
        default=AUTO,
        metavar="DTYPE",
        help=f"format of attention: {', '.join([AUTO, *KV_BYTES])} [{AUTO}]",
    )
    parser.add_argument(
        "--state-dtype",
        default=AUTO,
        metavar="DTYPE",
        help=f"format of recurrent states: {', '.join([AUTO, *STATE_BYTES])} [{AUTO}]",
    )
    parser.add_argument(
        "--spec-tokens", type=int, default=0, metavar="N", help="tokens drafted per step [0]"
    )


def add_plan_flags(parser: argparse.ArgumentParser) -> None:
    """Describe the flags of ``kvquarry plan``."""
    add_model_flags(parser)
    parser.add_argument(
        "--max-num-seqs", type=int, metavar="N", help="sequences that are to run at once"
    )
    parser.add_argument("--json", action="store_true", help="for scripts")
