"""What the service refuses, beyond what the core does.

::

    ServiceError
    |-- Fenced                  the caller's pool is not, or no longer, its own
    |   |-- UnknownPool         closed, lapsed, or of another life of the service
    |   |-- StaleIncarnation    the engine was opened again since
    |   `-- Superseded          the attachment has a newer stream
    |-- OutOfTurn               the numbers of batches do not add up
    |   |-- OutOfOrder          a number was skipped
    |   `-- AnswerForgotten     repeated too late
    |-- WorkerMismatch          a worker contradicts the engine or its other workers
    |-- Full                    a limit that keeps the service alive
    |   |-- TooManyPools
    |   |-- TooManyBlocks
    |   |-- TooManyRequests
    |   `-- TooManyStrangers
    |-- Draining                the service is about to stop
    `-- PoolBroken              a bug of ours; the pool was dropped

Mistakes in single arguments are the core's :class:`~kvquarry_core.errors.UsageError`.
"""

from enum import Enum
from typing import ClassVar


class ServiceReason(Enum):
    """Why a call was refused; clients read this, never the text."""

    UNKNOWN_POOL = "UNKNOWN_POOL"
    STALE_INCARNATION = "STALE_INCARNATION"
    SUPERSEDED = "SUPERSEDED"
    OUT_OF_ORDER = "OUT_OF_ORDER"
    ANSWER_FORGOTTEN = "ANSWER_FORGOTTEN"
    WORKER_MISMATCH = "WORKER_MISMATCH"
    TOO_MANY_POOLS = "TOO_MANY_POOLS"
    TOO_MANY_BLOCKS = "TOO_MANY_BLOCKS"
    TOO_MANY_REQUESTS = "TOO_MANY_REQUESTS"
    TOO_MANY_STRANGERS = "TOO_MANY_STRANGERS"
    DRAINING = "DRAINING"
    POOL_BROKEN = "POOL_BROKEN"


class ServiceError(Exception):
    """Root of what the service raises; only its leaves are raised."""

    reason: ClassVar[ServiceReason]


class Fenced(ServiceError):
    """The caller's pool is not, or no longer, its own."""


class UnknownPool(Fenced):
    """There is no such pool: it was closed, its lease lapsed, or the service was restarted."""

    reason = ServiceReason.UNKNOWN_POOL


class StaleIncarnation(Fenced):
    """The engine was opened again: this is the voice of an earlier life."""

    reason = ServiceReason.STALE_INCARNATION


class Superseded(Fenced):
    """The same attachment has opened a newer stream."""

    reason = ServiceReason.SUPERSEDED


class OutOfTurn(ServiceError):
    """The numbers of an attachment's batches do not add up."""


class OutOfOrder(OutOfTurn):
    """A batch number was skipped."""

    reason = ServiceReason.OUT_OF_ORDER


class AnswerForgotten(OutOfTurn):
    """A batch was repeated so late that its first answer is no longer kept."""

    reason = ServiceReason.ANSWER_FORGOTTEN


class WorkerMismatch(ServiceError):
    """A worker contradicts what the engine or its other workers said."""

    reason = ServiceReason.WORKER_MISMATCH


class Full(ServiceError):
    """A limit that keeps the service alive."""


class TooManyPools(Full):
    """The service holds as many pools as it may."""

    reason = ServiceReason.TOO_MANY_POOLS


class TooManyBlocks(Full):
    """The accounting of so many blocks would take too much of the service's memory."""

    reason = ServiceReason.TOO_MANY_BLOCKS


class TooManyRequests(Full):
    """A pool holds as many requests as it may."""

    reason = ServiceReason.TOO_MANY_REQUESTS


class TooManyStrangers(Full):
    """As many streams as the service puts up with are open and have not said hello."""

    reason = ServiceReason.TOO_MANY_STRANGERS


class Draining(ServiceError):
    """The service is about to stop."""

    reason = ServiceReason.DRAINING


class PoolBroken(ServiceError):
    """A bug of ours: the pool's books may be wrong, so it was dropped."""

    reason = ServiceReason.POOL_BROKEN
