"""``kvquarry plan``: what a pool would hold for a model, before anything is installed."""

import argparse
import json
from dataclasses import dataclass

from kvquarry_tools.models import ServedModel, Serving, find_model
from kvquarry_tools.planning.plain import plain_report
from kvquarry_tools.planning.report import make_report
from kvquarry_tools.planning.sizes import parse_memory
from kvquarry_tools.planning.table import plan_table


@dataclass(frozen=True, slots=True)
class PlanAnswer:
    """What the command answers.

    Attributes:
        text: What it prints.
        fits: Whether as many sequences as were wished run at once; true where none were.
    """

    text: str
    fits: bool


def run_plan(arguments: argparse.Namespace) -> PlanAnswer:
    """Plan what the flags ask for.

    Raises:
        InvalidInput: Something asked for cannot be; the message says what to change.
    """
    memory_bytes = parse_memory(arguments.memory)
    report = make_report(served_model(arguments), memory_bytes, arguments.max_num_seqs)
    is_json = arguments.json
    text = json.dumps(plain_report(report), indent=2) if is_json else plan_table(report)
    return PlanAnswer(text, report.sequences is None or report.sequences.fits)


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
