"""Flags whose defaults may come from the environment, and the values they understand."""

import argparse
import math
from collections.abc import Callable, Iterable, Mapping

from kvquarry_core.policies import NUMBERS, is_offered
from kvquarry_server.addresses import (
    Address,
    InvalidAddress,
    TcpAddress,
    parse_address,
    parse_tcp_address,
)

OFF = "off"

_SMALLEST_MESSAGE_BYTES = 64 << 10
_LARGEST_MESSAGE_BYTES = 1 << 30

Parse = Callable[[str], object]


class Flags:
    """Adds flags to a parser; each ``--some-name`` has a variable ``KVQUARRY_SOME_NAME``."""

    def __init__(self, parser: argparse.ArgumentParser, environ: Mapping[str, str]) -> None:
        self._parser = parser
        self._environ = environ

    def add(self, name: str, default: str, parse: Parse, text: str) -> None:
        """Add a flag with a value of its own kind."""
        unit = name.rpartition("-")[2].upper()
        self._add(name, default, parse, text, "ADDRESS" if unit == "LISTEN" else unit)

    def choose(self, name: str, default: str, choices: Iterable[str], text: str) -> None:
        """Add a flag that takes one of a few words."""
        self._add(name, default, one_of(*choices), text, f"{{{','.join(choices)}}}")

    def _add(self, name: str, default: str, parse: Parse, text: str, metavar: str) -> None:
        variable = "KVQUARRY_" + name.upper().replace("-", "_")
        self._parser.add_argument(
            f"--{name}",
            type=naming_the_variable(parse),
            default=from_environment(self._environ, variable, default),
            metavar=metavar,
            help=f"{text} [{variable}: {default}]",
        )


class _FromVariable(str):
    """A text that knows which variable it was read from."""

    __slots__ = ("variable",)
    variable: str


def from_environment(environ: Mapping[str, str], variable: str, default: str) -> str:
    """A variable's text, or the default where it is unset or empty.

    argparse puts a flag's default through the flag's ``type``, too, when it is a string.
    """
    if not environ.get(variable):
        return default
    text = _FromVariable(environ[variable])
    text.variable = variable
    return text


def naming_the_variable(parse: Parse) -> Parse:
    """Let a complaint about a text that was read from a variable name that variable."""

    def parse_argument(text: str) -> object:
        try:
            return parse(text)
        except (argparse.ArgumentTypeError, InvalidAddress) as error:
            source = f"{text.variable}: " if isinstance(text, _FromVariable) else ""
            raise argparse.ArgumentTypeError(f"{source}{error}") from None

    return parse_argument


def addresses(text: str) -> list[Address]:
    """Several addresses, separated by commas."""
    return [parse_address(one) for one in text.split(",")]


def tcp_or_off(text: str) -> TcpAddress | None:
    """A TCP address, or None for ``off``."""
    if text == OFF:
        return None
    try:
        return parse_tcp_address(text)
    except InvalidAddress as error:
        raise argparse.ArgumentTypeError(f"{error}, or off") from None


def one_of(*choices: str) -> Callable[[str], str]:
    """One of a few words; one that ends in ``-N`` takes a number there."""

    def choose(text: str) -> str:
        if not is_offered(text, choices):
            takes_number = any(one.endswith("-N") for one in choices)
            where_n = f"; N is {NUMBERS}" if takes_number else ""
            raise argparse.ArgumentTypeError(
                f"write one of {', '.join(choices)}, not {text!r}{where_n}"
            )
        return text

    return choose


def positive_seconds(text: str) -> float:
    """A number of seconds above 0."""
    seconds = _number(text)
    if not seconds > 0:
        raise argparse.ArgumentTypeError(f"write a number of seconds above 0, not {text!r}")
    return seconds


def seconds_or_none(text: str) -> float:
    """A number of seconds, or 0."""
    seconds = _number(text)
    if not seconds >= 0:
        raise argparse.ArgumentTypeError(f"write a number of seconds, 0 or more, not {text!r}")
    return seconds


def share(text: str) -> float:
    """A share of something, 0 and 1 included."""
    number = _number(text)
    if not 0 <= number <= 1:
        raise argparse.ArgumentTypeError(f"write a number from 0 to 1, not {text!r}")
    return number


def message_bytes(text: str) -> int:
    """A size that a message may have at most."""
    if not (text.isdecimal() and _SMALLEST_MESSAGE_BYTES <= int(text) <= _LARGEST_MESSAGE_BYTES):
        raise argparse.ArgumentTypeError(
            f"write a number of bytes from {_SMALLEST_MESSAGE_BYTES} to {_LARGEST_MESSAGE_BYTES}, "
            f"not {text!r}"
        )
    return int(text)


def _number(text: str) -> float:
    """A finite number, or one that no comparison holds of."""
    try:
        number = float(text)
    except ValueError:
        return math.nan
    return number if math.isfinite(number) else math.nan
