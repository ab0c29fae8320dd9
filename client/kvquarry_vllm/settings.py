"""The plug-in's settings, read from the environment once per process."""

from __future__ import annotations

import os
import re
import secrets
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kvquarry_client.scheduling import DEFAULT_AHEAD_TOKENS
from kvquarry_core.pins import DEFAULT_PIN_CAP
from kvquarry_core.policies import NO_CHOICE_BUT_STAY, PolicyNames

if TYPE_CHECKING:
    from kvquarry_client.target import Target

_DEFAULT_CONNECT_TIMEOUT_S = 300.0
#: Leaves room within the wire's 253 characters for the data-parallel suffix.
_ENGINE_NAME = re.compile(r"[!-~]{1,245}")


class InvalidSetting(ValueError):
    """A KVQUARRY_* variable cannot be understood; the message names it and what to write."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What the user said.

    Attributes:
        target: Where the accounting is.
        engine: The engine's name at the service.
        connect_timeout_s: How long to wait for a service that does not answer.
        policies: What the pool goes by; an empty name for its owner's choice.
        ahead_tokens: Blocks are asked for so many tokens before they are needed; 0 for not at all.
        check_steps: Every so many steps client and pool compare their books; 0 for never.
        pin_cap: The share of the pool that pins may hold, with ``inproc:``; a service has its own.
    """

    target: Target
    engine: str
    connect_timeout_s: float
    policies: PolicyNames = NO_CHOICE_BUT_STAY
    ahead_tokens: int = DEFAULT_AHEAD_TOKENS
    check_steps: int = 0
    pin_cap: float = DEFAULT_PIN_CAP

    @property
    def moves_blocks(self) -> bool:
        """Whether blocks of running requests may move."""
        return self.policies.relocation != NO_CHOICE_BUT_STAY.relocation

    def engine_of(self, parallel_config: Any) -> str:
        """The engine's own name: data-parallel engines share an environment, not a pool."""
        rank = parallel_config.data_parallel_index
        if rank == 0 and parallel_config.data_parallel_size == 1:
            return self.engine
        return f"{self.engine}-dp{rank}"


def read_settings(environ: Mapping[str, str] = os.environ) -> Settings | None:
    """The settings, or None for stock vLLM: ``KVQUARRY_TARGET`` is unset or empty.

    Raises:
        InvalidSetting: A variable cannot be understood.
    """
    text = environ.get("KVQUARRY_TARGET", "")
    if not text:
        return None
    return Settings(
        _target(text),
        _engine_name(environ.get("KVQUARRY_ENGINE", "")),
        _timeout_s(environ.get("KVQUARRY_CONNECT_TIMEOUT_S", "")),
        _policies(environ),
        _whole_number(environ, "KVQUARRY_AHEAD_TOKENS", DEFAULT_AHEAD_TOKENS),
        _whole_number(environ, "KVQUARRY_CHECK_STEPS", 0),
        _share(environ, "KVQUARRY_PIN_CAP", DEFAULT_PIN_CAP),
    )


def _target(text: str) -> Target:
    # Imported only now: stock vLLM's processes load no gRPC for our sake.
    from kvquarry_client.errors import InvalidTarget
    from kvquarry_client.target import parse_target

    try:
        return parse_target(text)
    except InvalidTarget as error:
        raise InvalidSetting(f"KVQUARRY_TARGET: {error}") from error


def _engine_name(text: str) -> str:
    # Containers may share host name and process id; two engines of one name would share a pool.
    name = text or f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(2)}"
    if not _ENGINE_NAME.fullmatch(name):
        raise InvalidSetting(
            "KVQUARRY_ENGINE: write 1 to 245 printable ASCII characters without spaces, "
            f"not {name!r}"
        )
    return name


def _policies(environ: Mapping[str, str]) -> PolicyNames:
    chosen = PolicyNames(
        environ.get("KVQUARRY_PLACEMENT", ""),
        environ.get("KVQUARRY_EVICTION", ""),
        environ.get("KVQUARRY_RELOCATION", ""),
        environ.get("KVQUARRY_RETENTION", ""),
    )
    return chosen.or_else(NO_CHOICE_BUT_STAY)


def _whole_number(environ: Mapping[str, str], name: str, default: int) -> int:
    text = environ.get(name, "")
    if text and not text.isdecimal():
        raise InvalidSetting(f"{name}: write a whole number, 0 for none, not {text!r}")
    return int(text or default)


def _share(environ: Mapping[str, str], name: str, default: float) -> float:
    text = environ.get(name, "")
    try:
        number = float(text or default)
    except ValueError:
        number = -1.0
    if not 0 <= number <= 1:
        raise InvalidSetting(f"{name}: write a number from 0 to 1, not {text!r}")
    return number


def _timeout_s(text: str) -> float:
    if not text:
        return _DEFAULT_CONNECT_TIMEOUT_S
    try:
        timeout_s = float(text)
    except ValueError:
        timeout_s = 0.0
    if not 0 < timeout_s < float("inf"):
        raise InvalidSetting(
            f"KVQUARRY_CONNECT_TIMEOUT_S: write a number of seconds above 0, not {text!r}"
        )
    return timeout_s
