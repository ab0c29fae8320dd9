"""What can go wrong, by whose fault.

::

    PoolError
    |-- UsageError         the caller broke the protocol; the pool is unchanged
    |   |-- PlanError      the memory or the groups admit no plan
    |   `-- UnknownPolicy  there is no policy of a name
    `-- BrokenLaw          our own bug, found by ``check_integrity``

A shortage of blocks is not an error: it is the value :class:`kvquarry_core.messages.Refusal`.
"""

from enum import Enum


class Reason(Enum):
    """Why a call was refused; clients read this, never the text."""

    UNKNOWN_REQUEST = "UNKNOWN_REQUEST"
    DUPLICATE_REQUEST = "DUPLICATE_REQUEST"
    UNKNOWN_GROUP = "UNKNOWN_GROUP"
    UNKNOWN_BLOCK = "UNKNOWN_BLOCK"
    NOT_GRANTED = "NOT_GRANTED"
    NOT_HELD = "NOT_HELD"
    NOT_SOLE_OWNER = "NOT_SOLE_OWNER"
    ALREADY_COMMITTED = "ALREADY_COMMITTED"
    INVALID_ARGUMENT = "INVALID_ARGUMENT"
    INVALID_GROUPS = "INVALID_GROUPS"
    POOL_TOO_SMALL = "POOL_TOO_SMALL"
    UNKNOWN_POLICY = "UNKNOWN_POLICY"
    LAYOUT_MISMATCH = "LAYOUT_MISMATCH"
    BOOKS_DIFFER = "BOOKS_DIFFER"
    WORKERS_NOT_REGISTERED = "WORKERS_NOT_REGISTERED"


class PoolError(Exception):
    """Root of everything the core raises."""


class UsageError(PoolError):
    """The caller broke the protocol. Nothing was changed."""

    def __init__(self, reason: Reason, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class PlanError(UsageError):
    """The memory or the groups admit no plan; the message says what to change."""


class UnknownPolicy(UsageError):
    """There is no policy of a name.

    Attributes:
        kind: Of the policy.
        name: What was asked for.
        offered: The names there are.
    """

    def __init__(self, kind: str, name: str, offered: tuple[str, ...], hint: str = "") -> None:
        text = f"there is no {kind} {name!r}; there are {', '.join(offered)}"
        super().__init__(Reason.UNKNOWN_POLICY, f"{text}; {hint}" if hint else text)
        self.kind = kind
        self.name = name
        self.offered = offered


class BrokenLaw(PoolError):
    """A conservation law does not hold: a bug of ours. The message names the guilty party."""
