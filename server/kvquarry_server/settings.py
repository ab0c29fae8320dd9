"""Everything that can be set, with its default: the one place that reads flags and environment.

Every flag ``--some-name`` has a variable ``KVQUARRY_SOME_NAME``; the flag wins.
"""

import argparse
import os
from collections.abc import Mapping
from dataclasses import dataclass

from kvquarry_core.pins import DEFAULT_PIN_CAP
from kvquarry_core.policies import PolicyNames, installed_policies
from kvquarry_server.addresses import Address, InvalidAddress, TcpAddress, parse_address
from kvquarry_server.flags import (
    OFF,
    Flags,
    addresses,
    from_environment,
    message_bytes,
    naming_the_variable,
    one_of,
    positive_seconds,
    seconds_or_none,
    share,
    tcp_or_off,
)

DEFAULT_TARGET = "unix:/run/kvquarry/kvquarry.sock"

_LOG_LEVELS = ("debug", "info", "warning", "error")


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
        relocation: What may be moved for a large block; where an engine leaves it to the service,
            which vLLM engines do not.
        retention: Which checkpoints stay, unless an engine chooses otherwise.
        pin_cap: The share of a pool that pins may hold; 0 for no pins.
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
    retention: str
    pin_cap: float
    has_reflection: bool
    drain_s: float
    log_level: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusSettings:
    """What ``kvquarry status`` and ``kvquarry pins`` go by.

    Attributes:
        target: Where the service is.
        is_json: Whether a script reads the answer.
        timeout_s: How long to wait for it.
    """

    target: Address
    is_json: bool
    timeout_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class UnpinSettings:
    """What ``kvquarry unpin`` goes by.

    Attributes:
        target: Where the service is.
        timeout_s: How long to wait for its answer.
        pin_ids: Which pins are to end.
        engine: Whose they are; empty for those of all engines.
    """

    target: Address
    timeout_s: float
    pin_ids: tuple[str, ...]
    engine: str


def add_serve_flags(
    parser: argparse.ArgumentParser, environ: Mapping[str, str] = os.environ
) -> None:
    """Describe the flags of ``kvquarry serve``, with defaults from the environment."""
    flags = Flags(parser, environ)
    parser.add_argument(
        "--listen",
        action="append",
        type=naming_the_variable(parse_address),
        metavar="ADDRESS",
        help=f"where engines connect, unix:/path or host:port; may be repeated "
        f"[KVQUARRY_LISTEN, comma-separated: {DEFAULT_TARGET}]",
    )
    parser.set_defaults(listen_default=environ.get("KVQUARRY_LISTEN") or DEFAULT_TARGET)
    flags.add("metrics-listen", "127.0.0.1:9464", tcp_or_off, "where Prometheus scrapes, or off")
    flags.add("health-listen", OFF, tcp_or_off, "TCP address for gRPC health probes, or off")
    flags.add(
        "lease-seconds", "60", positive_seconds, "how long a pool outlives its engine's stream"
    )
    flags.add(
        "attach-seconds", "900", positive_seconds, "how long a pool waits for its first stream"
    )
    flags.add(
        "keepalive-seconds",
        "10",
        positive_seconds,
        "how long an engine may be silent before it is asked whether it lives, and how long it is "
        "then waited for",
    )
    flags.add("max-message-bytes", str(16 << 20), message_bytes, "the largest message taken")
    offered, default = installed_policies(), PolicyNames()
    flags.choose("placement", default.placement, offered.placements, "where new blocks go")
    flags.choose("eviction", default.eviction, offered.evictions, "what goes first")
    flags.choose(
        "relocation",
        default.relocation,
        offered.relocations,
        "what may move; a vLLM engine moves nothing unless its own KVQUARRY_RELOCATION says so",
    )
    flags.choose("retention", default.retention, offered.retentions, "which checkpoints stay")
    flags.add(
        "pin-cap", str(DEFAULT_PIN_CAP), share, "the share of a pool that pins may hold, 0 for none"
    )
    flags.add("drain-seconds", "10", seconds_or_none, "how long engines may go on after SIGTERM")
    flags.choose("log-level", "info", _LOG_LEVELS, "the least severe messages that are logged")
    parser.add_argument(
        "--reflection",
        type=naming_the_variable(one_of("on", OFF)),
        nargs="?",
        const="on",
        default=from_environment(environ, "KVQUARRY_REFLECTION", OFF),
        metavar="{on,off}",
        help="describe the API to whoever asks [KVQUARRY_REFLECTION: off]",
    )


def serve_settings(arguments: argparse.Namespace) -> ServeSettings:
    """The settings behind parsed flags.

    Raises:
        InvalidAddress: KVQUARRY_LISTEN cannot be understood.
    """
    listen = arguments.listen or _listen_default(arguments.listen_default)
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
        retention=arguments.retention,
        pin_cap=arguments.pin_cap,
        has_reflection=arguments.reflection == "on",
        drain_s=arguments.drain_seconds,
        log_level=arguments.log_level,
    )


def add_status_flags(
    parser: argparse.ArgumentParser, environ: Mapping[str, str] = os.environ
) -> None:
    """Describe the flags of ``kvquarry status``, with defaults from the environment."""
    _add_target_flags(parser, environ)
    parser.add_argument("--json", action="store_true", help="for scripts")


def add_unpin_flags(
    parser: argparse.ArgumentParser, environ: Mapping[str, str] = os.environ
) -> None:
    """Describe the flags of ``kvquarry unpin``, with defaults from the environment."""
    _add_target_flags(parser, environ)
    parser.add_argument("pin", nargs="+", metavar="PIN", help="as `kvquarry pins` names it")
    parser.add_argument("--engine", default="", help="whose pins; without it those of all engines")


def _add_target_flags(parser: argparse.ArgumentParser, environ: Mapping[str, str]) -> None:
    parser.add_argument(
        "--target",
        type=naming_the_variable(_target),
        default=from_environment(environ, "KVQUARRY_TARGET", DEFAULT_TARGET),
        metavar="ADDRESS",
        help=f"where the service is, unix:/path or host:port [KVQUARRY_TARGET: {DEFAULT_TARGET}]",
    )
    Flags(parser, environ).add(
        "timeout-seconds", "5", positive_seconds, "how long to wait for an answer"
    )


def status_settings(arguments: argparse.Namespace) -> StatusSettings:
    """The settings behind parsed flags."""
    return StatusSettings(
        target=arguments.target, is_json=arguments.json, timeout_s=arguments.timeout_seconds
    )


def unpin_settings(arguments: argparse.Namespace) -> UnpinSettings:
    """The settings behind parsed flags."""
    return UnpinSettings(
        target=arguments.target,
        timeout_s=arguments.timeout_seconds,
        pin_ids=tuple(arguments.pin),
        engine=arguments.engine,
    )


def _listen_default(text: str) -> list[Address]:
    try:
        return addresses(text)
    except InvalidAddress as error:
        raise InvalidAddress(f"KVQUARRY_LISTEN: {error}") from None


def _target(text: str) -> Address:
    """Where a service can be asked; unlike an engine's target it cannot be this process."""
    if text == "inproc:":
        raise InvalidAddress(
            "with inproc: the accounting is inside the engine's process, and there is no service "
            "to ask"
        )
    address = parse_address(text)
    if isinstance(address, TcpAddress) and not address.port:
        raise InvalidAddress("nobody can be found at port 0: write the port of the service")
    return address
