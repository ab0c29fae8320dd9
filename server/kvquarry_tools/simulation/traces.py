"""Traces in the Mooncake format: one JSON object a line.

::

    {"timestamp": 27482, "input_length": 6955, "output_length": 52, "hash_ids": [46, 47, ...]}

``timestamp`` is in milliseconds; ``hash_ids`` names every 512 tokens of the prompt, the last,
partly filled unit included. Equal ids stand for an equal prefix up to and including that unit.
Source: Mooncake (FAST'25), https://github.com/kvcache-ai/Mooncake.
"""

import gzip
import json
import lzma
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from kvquarry_tools.errors import InvalidInput

#: Tokens that one of a trace's ids names.
UNIT_TOKENS = 512

#: Milliseconds since 1970 for two and a half centuries to come: a trace may count from then.
_LATEST_MS = 10**13
#: More than any context holds.
_MOST_TOKENS = 10**8
#: Names are put into eight bytes.
_MOST_UNIT = (1 << 64) - 1

_OPENERS: dict[str, Callable[..., TextIO]] = {".gz": gzip.open, ".xz": lzma.open}


class TraceError(InvalidInput):
    """A trace cannot be read; the message names the file and the line."""


@dataclass(frozen=True, slots=True)
class TraceRequest:
    """One request of a trace.

    Attributes:
        arrival_ms: When it arrived, from the trace's start.
        num_prompt_tokens: Its prompt.
        num_output_tokens: Tokens generated for it.
        units: Names of its prompt's units of :data:`UNIT_TOKENS` tokens.
    """

    arrival_ms: int
    num_prompt_tokens: int
    num_output_tokens: int
    units: tuple[int, ...]

    @property
    def num_shareable_tokens(self) -> int:
        """Tokens that a longer prompt can have in common, as far as the trace tells.

        The last unit is named for what it lacks, too: in a conversation's next turn it is a full
        unit with another name, though it begins alike. A checkpoint within it is never found.
        """
        return self.num_prompt_tokens // UNIT_TOKENS * UNIT_TOKENS


def read_trace(path: Path) -> list[TraceRequest]:
    """All requests of a trace, in the file's order; ``.gz`` and ``.xz`` are unpacked.

    Raises:
        TraceError: The file cannot be read, a line is no request, or there is none at all.
    """
    try:
        requests = list(_requests(path))
    except UnicodeDecodeError as error:
        raise TraceError(f"cannot read the trace {path}: it is no text in UTF-8") from error
    except (OSError, EOFError, lzma.LZMAError, zlib.error) as error:
        raise TraceError(f"cannot read the trace {path}: {error}") from error
    if not requests:
        raise TraceError(f"{path} holds no requests: expected one JSON object a line")
    return requests


def _requests(path: Path) -> Iterator[TraceRequest]:
    for number, line in enumerate(_lines(path), start=1):
        if line.strip():
            try:
                yield _request(line)
            except ValueError as error:
                raise TraceError(f"{path}, line {number}: {error}") from error


def _lines(path: Path) -> Iterator[str]:
    """The lines, without the mark that some editors put before the first one."""
    opener = _OPENERS.get(path.suffix, open)
    with opener(path, "rt", encoding="utf-8-sig") as file:
        yield from file


def _request(line: str) -> TraceRequest:
    found = _parsed(line)
    if not isinstance(found, dict):
        raise ValueError(f"expected a JSON object, not {line.strip()[:40]!r}")
    num_prompt_tokens = _count(found, "input_length", least=1, most=_MOST_TOKENS)
    units = found.get("hash_ids")
    if not isinstance(units, list) or not all(map(_is_unit, units)):
        raise ValueError(f"hash_ids must be a list of integers from 0 to {_MOST_UNIT}")
    expected = -(-num_prompt_tokens // UNIT_TOKENS)
    if len(units) != expected:
        raise ValueError(
            f"a prompt of {num_prompt_tokens} tokens has {expected} hash_ids of {UNIT_TOKENS} "
            f"tokens, not {len(units)}"
        )
    return TraceRequest(
        arrival_ms=_count(found, "timestamp", least=0, most=_LATEST_MS),
        num_prompt_tokens=num_prompt_tokens,
        num_output_tokens=_count(found, "output_length", least=0, most=_MOST_TOKENS),
        units=tuple(units),
    )


def _parsed(line: str) -> object:
    try:
        return json.loads(line)
    except json.JSONDecodeError as error:
        raise ValueError(
            f"expected a JSON object, and column {error.colno} of {line.strip()[:40]!r} is of none"
        ) from error
    except (ValueError, RecursionError) as error:
        raise ValueError("a number is too long, or brackets are too deep") from error


def _is_unit(unit: object) -> bool:
    return type(unit) is int and 0 <= unit <= _MOST_UNIT


def _count(found: dict[str, object], name: str, *, least: int, most: int) -> int:
    value = found.get(name)
    if type(value) is not int or not least <= value <= most:
        raise ValueError(
            f"{name} must be an integer of at least {least} and at most {most}, "
            f"not {repr(value)[:40]}"
        )
    return value
