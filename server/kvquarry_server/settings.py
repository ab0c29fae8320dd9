"""Everything that can be set, with its default: the one place that reads flags and environment.

Every flag ``--some-name`` has a variable ``KVQUARRY_SOME_NAME``; the flag wins.
"""

import argparse
import math
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from kvquarry_core.policies import PolicyNames, installed_policies
from kvquarry_server.addresses import (
    Address,
    InvalidAddress,
    TcpAddress,
    parse_address,
    parse_tcp_address,
)

DEFAULT_TARGET = "unix:/run/kvquarry/kvquarry.sock"

_OFF = "off"
_SMALLEST_MESSAGE_BYTES = 64 << 10
_LARGEST_MESSAGE_BYTES = 1 << 30


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeSettings:
    """What ``kvquarry serve`` goes by.

    Attributes:
        listen: Where engines connect.
        metrics_listen: Where Prometheus scrapes; None for nowhere.
        health_listen: Where a kubelet probes, in plain text, besides ``listen``; None for nowhere.
        lease_s: How long a pool outlives its engine's stream.
        attach_s: How long an opened pool waits for its engine's first stream.
        keepalive_s: How long an engine may be silent before it is asked whether it lives, and how
            long it is then waited for.
        max_message_bytes: The largest message the service takes.
        placement: Where new blocks go, unless an engine chooses otherwise.
        eviction: What goes first when memory is short; likewise.
        relocation: What may be moved for a large block; likewise.
        has_reflection: Whether the service describes its API to whoever asks.
        drain_s: How long engines may go on after SIGTERM.
        log_level: The least severe messages that are logged.
    """

    listen: tuple[Address, ...]
    metrics_listen: TcpAddress | None
    health_listen: TcpAddress | None
    lease_s: float
    attach_s: float
    keepalive_s: float
    max_message_bytes: int
    placement: str
    eviction: str
    relocation: str
    has_reflection: bool
    drain_s: float
    log_level: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusSettings:
    """What ``kvquarry status`` goes by.

    Attributes:
        target: Where the service is.
        is_json: Whether a script reads the answer.
        timeout_s: How long to wait for it.
    """

    target: Address
    is_json: bool
    timeout_s: float


def add_serve_flags(
    parser: argparse.ArgumentParser, environ: Mapping[str, str] = os.environ
) -> None:
    """Describe the flags of ``kvquarry serve``, with defaults from the environment."""
    flags = _Flags(parser, environ)
    parser.add_argument(
        "--listen",
        action="append",
        type=_argument(parse_address),
        metavar="ADDRESS",
        help=f"where engines connect, unix:/path or host:port; may be repeated "
        f"[KVQUARRY_LISTEN, comma-separated: {DEFAULT_TARGET}]",
    )
    parser.set_defaults(listen_default=environ.get("KVQUARRY_LISTEN") or DEFAULT_TARGET)
    flags.add("metrics-listen", "127.0.0.1:9464", _tcp_or_off, "where Prometheus scrapes, or off")
    flags.add("health-listen", _OFF, _tcp_or_off, "TCP address for gRPC health probes, or off")
    flags.add("lease-seconds", "60", _positive, "how long a pool outlives its engine's stream")
    flags.add("attach-seconds", "900", _positive, "how long a new pool waits for its first stream")
    flags.add("keepalive-seconds", "10", _positive, "after that much silence, twice, it is dead")
    flags.add("max-message-bytes", str(16 << 20), _message_bytes, "the largest message taken")
    offered, default = installed_policies(), PolicyNames()
    flags.add("placement", default.placement, _one_of(*offered.placements), "where new blocks go")
    flags.add("eviction", default.eviction, _one_of(*offered.evictions), "what goes first")
    flags.add("relocation", default.relocation, _one_of(*offered.relocations), "what may move")
    flags.add("drain-seconds", "10", _not_negative, "how long engines may go on after SIGTERM")
    flags.add("log-level", "info", _one_of("debug", "info", "warning", "error"), "what is logged")
    parser.add_argument(
        "--reflection",
        type=_one_of("on", _OFF),
        nargs="?",
        const="on",
        default=environ.get("KVQUARRY_REFLECTION") or _OFF,
        help="describe the API to whoever asks [KVQUARRY_REFLECTION: off]",
    )


def serve_settings(arguments: argparse.Namespace) -> ServeSettings:
    """The settings behind parsed flags.

    Raises:
        InvalidAddress: KVQUARRY_LISTEN cannot be understood.
    """
    listen = arguments.listen or [parse_address(one) for one in arguments.listen_default.split(",")]
    return ServeSettings(
        listen=tuple(dict.fromkeys(listen)),
        metrics_listen=arguments.metrics_listen,
        health_listen=arguments.health_listen,
        lease_s=arguments.lease_seconds,
        attach_s=arguments.attach_seconds,
        keepalive_s=arguments.keepalive_seconds,
        max_message_bytes=arguments.max_message_bytes,
        placement=arguments.placement,
        eviction=arguments.eviction,
        relocation=arguments.relocation,
        has_reflection=arguments.reflection == "on",
        drain_s=arguments.drain_seconds,
        log_level=arguments.log_level,
    )


def add_status_flags(
    parser: argparse.ArgumentParser, environ: Mapping[str, str] = os.environ
) -> None:
    """Describe the flags of ``kvquarry status``, with defaults from the environment."""
    parser.add_argument(
        "--target",
        type=_argument(parse_address),
        default=environ.get("KVQUARRY_TARGET") or DEFAULT_TARGET,
        metavar="ADDRESS",
        help=f"where the service is, unix:/path or host:port [KVQUARRY_TARGET: {DEFAULT_TARGET}]",
    )
    parser.add_argument("--json", action="store_true", help="for scripts")
    _Flags(parser, environ).add("timeout-seconds", "5", _positive, "how long to wait for an answer")


def status_settings(arguments: argparse.Namespace) -> StatusSettings:
    """The settings behind parsed flags."""
    return StatusSettings(
        target=arguments.target, is_json=arguments.json, timeout_s=arguments.timeout_seconds
    )


class _Flags:
    """Adds flags whose defaults may come from the environment."""

    def __init__(self, parser: argparse.ArgumentParser, environ: Mapping[str, str]) -> None:
        self._parser = parser
        self._environ = environ

    def add(self, name: str, default: str, parse: Callable[[str], object], text: str) -> None:
        """Add a flag; argparse puts defaults that are strings through ``parse`` as well."""
        variable = "KVQUARRY_" + name.upper().replace("-", "_")
        self._parser.add_argument(
            f"--{name}",
            type=parse,
            default=self._environ.get(variable) or default,
            metavar=name.rpartition("-")[2].upper(),
            help=f"{text} [{variable}: {default}]",
        )


def _argument(parse: Callable[[str], Address]) -> Callable[[str], Address]:
    """Let argparse show what is wrong with an address."""

    def parse_argument(text: str) -> Address:
        try:
            return parse(text)
        except InvalidAddress as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return parse_argument


def _tcp_or_off(text: str) -> TcpAddress | None:
    if text == _OFF:
        return None
    try:
        return parse_tcp_address(text)
    except InvalidAddress as error:
        raise argparse.ArgumentTypeError(f"{error}, or off") from None


def _one_of(*choices: str) -> Callable[[str], str]:
    def choose(text: str) -> str:
        if text not in choices:
            raise argparse.ArgumentTypeError(f"write one of {', '.join(choices)}, not {text!r}")
        return text

    return choose


def _positive(text: str) -> float:
    seconds = _not_negative(text)
    if not seconds:
        raise argparse.ArgumentTypeError("write more than 0 seconds")
    return seconds


def _not_negative(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not (math.isfinite(seconds) and seconds >= 0):
        raise argparse.ArgumentTypeError(f"write a number of seconds, not {text!r}")
    return seconds


def _message_bytes(text: str) -> int:
    if not (text.isdecimal() and _SMALLEST_MESSAGE_BYTES <= int(text) <= _LARGEST_MESSAGE_BYTES):
        raise argparse.ArgumentTypeError(
            f"write a number of bytes from {_SMALLEST_MESSAGE_BYTES} to {_LARGEST_MESSAGE_BYTES}, "
            f"not {text!r}"
        )
    return int(text)
