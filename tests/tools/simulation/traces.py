"""Traces for the tests: the real one, and small ones written by hand."""

from collections.abc import Sequence
from functools import cache
from pathlib import Path

from kvquarry_tools.simulation.traces import UNIT_TOKENS, TraceRequest, read_trace

CONVERSATION = Path(__file__).parents[1] / "data" / "mooncake_conversation.jsonl.xz"


@cache
def conversation() -> Sequence[TraceRequest]:
    """The whole conversation trace."""
    return tuple(read_trace(CONVERSATION))


def request(
    units: str, *, arrival_ms: int = 0, more_tokens: int = 0, num_output_tokens: int = 1
) -> TraceRequest:
    """A prompt of one unit a letter, and a few tokens more; equal beginnings are shared.

    A letter's name depends on all letters before it, as in a real trace.
    """
    names = [_name(units[:end]) for end in range(1, len(units) + 1)]
    if more_tokens:
        names.append(_name(f"{units}+{more_tokens}"))
    return TraceRequest(
        arrival_ms=arrival_ms,
        num_prompt_tokens=len(units) * UNIT_TOKENS + more_tokens,
        num_output_tokens=num_output_tokens,
        units=tuple(names),
    )


def _name(prefix: str) -> int:
    return int.from_bytes(prefix.encode().rjust(8, b"\0")[-8:])
