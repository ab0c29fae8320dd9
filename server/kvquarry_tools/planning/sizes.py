"""Amounts of memory and numbers as users write and read them."""

import re
from decimal import Decimal

from kvquarry_tools.errors import InvalidOption

_BYTES = {
    "": 1,
    "B": 1,
    "KB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "TB": 10**12,
    "KIB": 2**10,
    "MIB": 2**20,
    "GIB": 2**30,
    "TIB": 2**40,
}
_BINARY = ("KiB", "MiB", "GiB", "TiB")
_KIB = 1024
#: More than any worker has.
MOST_BYTES = 2**50


def parse_memory(text: str) -> int:
    """Bytes from ``20GiB``, ``512 MiB``, ``80GB`` or a plain number of bytes.

    Raises:
        InvalidOption: It is no amount of memory, none at all, or more than there is.
    """
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([A-Za-z]*)", text.strip())
    unit = match[2].upper() if match else ""
    if not match or unit not in _BYTES:
        raise InvalidOption(f"{text!r} is no amount of memory; write it as in 20GiB or 512MiB")
    num_bytes = int(Decimal(match[1]) * _BYTES[unit])
    if num_bytes < 1:
        raise InvalidOption(f"{text!r} is no memory at all; give what the KV cache may take")
    if num_bytes > MOST_BYTES:
        raise InvalidOption(
            f"{text!r} is more than any worker has; give what one worker's may take"
        )
    return num_bytes


def memory(num_bytes: float) -> str:
    """An amount of memory in three digits or so: ``20.0 GiB``."""
    if num_bytes < _KIB:
        return f"{num_bytes:.0f} B"
    amount = float(num_bytes)
    for unit in _BINARY:
        amount /= _KIB
        if amount < 1000 or unit == _BINARY[-1]:
            break
    return f"{amount:.2f} {unit}" if amount < 10 else f"{amount:.1f} {unit}"


def count(number: int) -> str:
    """A number with its thousands apart: ``32,768``."""
    return f"{number:,}"


def mebibytes(num_bytes: int) -> str:
    """An amount of whole MiB as ``--memory`` takes it: ``5760MiB``."""
    return f"{num_bytes >> 20}MiB"


def tokens(number: int) -> str:
    """So many tokens: ``1 token``, ``1,056 tokens``."""
    return "1 token" if number == 1 else f"{count(number)} tokens"
