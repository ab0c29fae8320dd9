"""``kvquarry plan``: what a pool would hold for a model, before anything is installed."""

import argparse
import json

from kvquarry_tools.models import ServedModel, Serving, find_model
from kvquarry_tools.planning.plain import plain_report
from kvquarry_tools.planning.report import make_report
from kvquarry_tools.planning.sizes import parse_memory
from kvquarry_tools.planning.table import plan_table


def run_plan(arguments: argparse.Namespace) -> str:
    """What the command prints.

    Raises:
        InvalidInput: Something asked for cannot be; the message says what to change.
    """
    memory_bytes = parse_memory(arguments.memory)
    report = make_report(served_model(arguments), memory_bytes, arguments.max_num_seqs)
    if arguments.json:
        return json.dumps(plain_report(report), indent=2)
    return plan_table(report)


def served_model(arguments: argparse.Namespace) -> ServedModel:
    """The model that the flags name, served as they say.

    Raises:
        InvalidInput: There is no such model, or it cannot be served like this.
    """
    serving = Serving(
        block_tokens=arguments.block_size,
        tp=arguments.tp,
        kv_dtype=arguments.kv_dtype,
        state_dtype=arguments.state_dtype,
        num_speculative_tokens=arguments.spec_tokens,
    )
    return find_model(arguments.model).served(serving)
