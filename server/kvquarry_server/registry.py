"""All pools of the service, by id, and whose they are.

An engine has one pool at a time. Opening another one under the same name is the engine's next
life: the incarnation goes up, and the earlier life, wherever it still speaks, is fenced.
"""

import logging
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from kvquarry_core.pins import DEFAULT_PIN_CAP
from kvquarry_core.plan import GroupSpec, make_plan
from kvquarry_core.policies import BUILT_IN, NO_CHOICE, NO_CHOICE_BUT_STAY, Catalog, PolicyNames
from kvquarry_core.work import Work
from kvquarry_server import limits
from kvquarry_server.attachment import Attachment, Identity, Terms
from kvquarry_server.faults import (
    Draining,
    PoolBroken,
    ServiceError,
    StaleIncarnation,
    TooManyPools,
    UnknownPool,
)
from kvquarry_server.lease import Lease, Stream
from kvquarry_server.limits import Limits
from kvquarry_server.memory import RecentlySet

logger = logging.getLogger(__name__)

#: Engines and pools that are gone but remembered, to tell a stale caller from a lost one.
_MOST_REMEMBERED = 4096


@dataclass(frozen=True, slots=True)
class OpenRequest:
    """What an engine needs.

    Attributes:
        engine: Its name.
        groups: Its KV cache groups.
        pool_bytes: Bytes each worker has for its copy of the pool.
        num_workers: Workers that must register before a block is handed out.
        model: What is served, for people.
        policies: What its pool goes by; empty names for the service's choice.
        work: What its model computes; None where it does not say.
        hears_evictions: Whether it wants to know what became unfindable.
    """

    engine: str
    groups: tuple[GroupSpec, ...]
    pool_bytes: int
    num_workers: int
    model: str
    policies: PolicyNames = NO_CHOICE
    work: Work | None = None
    hears_evictions: bool = True


@dataclass(frozen=True, slots=True)
class PinNames:
    """Some pins.

    Attributes:
        pin_ids: Their names.
        engine: Whose they are; empty for those of all engines.
    """

    pin_ids: frozenset[str]
    engine: str = ""


@dataclass(frozen=True, slots=True)
class Unpinned:
    """What came of ending some pins.

    Attributes:
        num_ended: Pins that ended.
        missing_ids: Names that were in no pool, in order.
        is_engine_missing: Whether the engine named has no pool.
    """

    num_ended: int
    missing_ids: tuple[str, ...] = ()
    is_engine_missing: bool = False


@dataclass(frozen=True, slots=True)
class Policy:
    """How the service treats its pools.

    Attributes:
        lease_s: How long a pool outlives its stream.
        attach_s: How long a pool waits for its first stream.
        pool_policies: What a pool goes by whose engine does not choose.
        pin_cap: The share of a pool that its pins may hold.
        catalog: What engines may choose from.
        limits: What the service holds at most.
    """

    lease_s: float = 60.0
    attach_s: float = 900.0
    pool_policies: PolicyNames = field(default_factory=PolicyNames)
    pin_cap: float = DEFAULT_PIN_CAP
    catalog: Catalog = BUILT_IN
    limits: Limits = field(default_factory=Limits)


class Registry:
    """Opens, finds and drops pools. One owner calls it, so every call is atomic."""

    def __init__(self, policy: Policy, clock: Callable[[], float]) -> None:
        self.policy = policy
        self.clock = clock
        self._pools: dict[str, Attachment] = {}
        self._pool_of_engine: dict[str, str] = {}
        self._incarnations: RecentlySet[str, int] = RecentlySet(_MOST_REMEMBERED)
        self._engine_of_dropped: RecentlySet[str, str] = RecentlySet(_MOST_REMEMBERED)
        self._is_draining = False

    @property
    def attachments(self) -> list[Attachment]:
        """All of them, in the order in which they were opened."""
        return list(self._pools.values())

    @property
    def num_streams(self) -> int:
        """Open streams."""
        return sum(attachment.lease.is_held for attachment in self.attachments)

    def open(self, request: OpenRequest) -> Attachment:
        """Open an engine's pool; an earlier one of the same engine is dropped and fenced.

        Raises:
            Draining: The service is about to stop.
            TooManyPools: The service holds as many pools as it may.
            TooManyBlocks: Or as many blocks.
            UsageError: The request makes no sense; the message says what to change.
        """
        if self._is_draining:
            raise Draining("the service is about to stop and opens no more pools")
        self._check(request)
        policy = self.policy
        plan = make_plan(request.groups, request.pool_bytes)
        names = request.policies.or_else(policy.pool_policies)
        policies = replace(policy.catalog.make(names), pin_cap=policy.pin_cap)
        earlier = self._pools.get(self._pool_of_engine.get(request.engine, ""))
        identity = self._next_identity(request, earlier)
        terms = Terms(
            plan,
            names,
            policies,
            request.work,
            request.num_workers,
            request.hears_evictions,
            policy.limits.num_requests,
        )
        lease = Lease(attach_by=self.clock() + policy.attach_s, lease_s=policy.lease_s)
        # A bug or a lack of memory in here must leave the earlier life alone.
        attachment = Attachment(identity, terms, lease, self.clock)
        if earlier is not None:
            self._end_life(earlier)
        self._incarnations.set(identity.engine, identity.incarnation)
        self._pools[identity.pool_id] = attachment
        self._pool_of_engine[identity.engine] = identity.pool_id
        logger.info(
            "pool opened engine=%s incarnation=%d pool=%s bytes=%d workers=%d",
            identity.engine,
            identity.incarnation,
            identity.pool_id,
            plan.pool_bytes,
            request.num_workers,
        )
        self._say_what_was_declined(identity.engine, names)
        return attachment

    def find(self, pool_id: str, incarnation: int) -> Attachment:
        """The attachment of one life of an engine.

        Raises:
            UnknownPool: There is no such pool (any longer).
            StaleIncarnation: The engine was opened again since.
        """
        attachment = self._pools.get(pool_id)
        if attachment is None:
            engine = self._engine_of_dropped.get(pool_id)
            if engine in self._pool_of_engine:
                raise StaleIncarnation(_opened_again(engine))
            raise UnknownPool("there is no such pool: open one; it may have lapsed or been closed")
        current = attachment.identity.incarnation
        if incarnation != current:
            raise StaleIncarnation(
                f"engine {attachment.identity.engine} is in its incarnation {current}, not "
                f"{incarnation}"
            )
        return attachment

    def attach(self, pool_id: str, incarnation: int, stream: Stream) -> Attachment:
        """Let a stream hold an attachment's lease; an earlier stream is superseded.

        Raises:
            UnknownPool: There is no such pool (any longer).
            StaleIncarnation: The engine was opened again since.
        """
        attachment = self.find(pool_id, incarnation)
        attachment.lease.hold(stream)
        logger.info("stream opened engine=%s pool=%s", attachment.identity.engine, pool_id)
        return attachment

    def detach(self, attachment: Attachment, stream: Stream) -> None:
        """A stream ended, for whatever reason: its attachment's lease begins to run out."""
        attachment.lease.release(stream, now=self.clock())
        logger.info(
            "stream ended engine=%s pool=%s attached=%s",
            attachment.identity.engine,
            attachment.identity.pool_id,
            attachment.lease.is_held,
        )

    def close(self, pool_id: str, incarnation: int) -> None:
        """Drop a pool before its lease lapses.

        Raises:
            UnknownPool: There is no such pool (any longer).
            StaleIncarnation: The engine was opened again since.
        """
        attachment = self.find(pool_id, incarnation)
        self._drop(attachment, UnknownPool("the pool was closed"))

    def condemn(self, attachment: Attachment) -> PoolBroken:
        """Drop a pool whose books may be wrong: a block handed out twice ends in wrong tokens."""
        error = PoolBroken("the service found a bug of its own in this pool and dropped it")
        self._drop(attachment, error)
        return error

    def drop_lapsed(self) -> None:
        """Drop every pool whose lease has lapsed, and end the pins of others that have."""
        now = self.clock()
        for attachment in self.attachments:
            if attachment.lease.has_lapsed(now=now):
                self._drop(attachment, UnknownPool("the pool's lease has lapsed"))
            else:
                attachment.pass_time()

    def unpin(self, names: PinNames) -> Unpinned:
        """End pins."""
        pools = [
            attachment.pool
            for attachment in self.attachments
            if names.engine in {"", attachment.identity.engine}
        ]
        ended = {
            pin_id: sum(pool.unpin(pin_id) for pool in pools) for pin_id in sorted(names.pin_ids)
        }
        return Unpinned(
            sum(ended.values()),
            tuple(pin_id for pin_id, num_ended in ended.items() if not num_ended),
            is_engine_missing=bool(names.engine) and not pools,
        )

    def drain(self) -> None:
        """Open no more pools."""
        self._is_draining = True

    def end_streams(self, error: ServiceError) -> None:
        """Tell every open stream to end."""
        for attachment in self.attachments:
            attachment.lease.end_stream(error)

    def _check(self, request: OpenRequest) -> None:
        """Everything that could go wrong goes wrong here, before the earlier life is touched."""
        limits.check_engine(request.engine)
        limits.check_text("a model's name", request.model)
        limits.check_num_workers(request.num_workers)
        if request.work is not None:
            request.work.check()
        others = [one for one in self.attachments if one.identity.engine != request.engine]
        if len(others) >= self.policy.limits.num_pools:
            raise TooManyPools(
                f"the service holds {len(others)} pools and no more; stop an engine, or wait for "
                "a lease to lapse"
            )
        held = sum(c.num_blocks for one in others for c in one.pool.plan.classes)
        most = self.policy.limits.num_blocks - held
        limits.check_geometry(request.groups, request.pool_bytes, most_blocks=most)

    def _say_what_was_declined(self, engine: str, names: PolicyNames) -> None:
        """An engine's blocks move only when it says so itself; whoever chose otherwise hears it."""
        chosen = self.policy.pool_policies.relocation
        if names.relocation == NO_CHOICE_BUT_STAY.relocation != chosen:
            logger.info(
                "engine %s keeps its blocks where they are: set KVQUARRY_RELOCATION there to %s "
                "to let them move",
                engine,
                chosen,
            )

    def _next_identity(self, request: OpenRequest, earlier: Attachment | None) -> Identity:
        """Whose life the next one of this engine is."""
        incarnation = self._incarnations.get(request.engine) or 0
        if earlier is not None:
            incarnation = earlier.identity.incarnation
        return Identity(
            request.engine,
            incarnation + 1,
            uuid.uuid4().hex,
            request.model,
            earlier_was_attached=earlier is not None and earlier.lease.is_held,
        )

    def _end_life(self, earlier: Attachment) -> None:
        """An engine's next life has begun: the one before it ends."""
        engine = earlier.identity.engine
        if earlier.lease.is_held:
            logger.warning("an attached engine loses its pool to another of its name: %s", engine)
        self._drop(earlier, StaleIncarnation(_opened_again(engine)))

    def _drop(self, attachment: Attachment, error: ServiceError) -> None:
        identity = attachment.identity
        if self._pools.pop(identity.pool_id, None) is None:
            return
        del self._pool_of_engine[identity.engine]
        self._engine_of_dropped.set(identity.pool_id, identity.engine)
        attachment.lease.end_stream(error)
        logger.info(
            "pool dropped engine=%s incarnation=%d pool=%s reason=%s: %s",
            identity.engine,
            identity.incarnation,
            identity.pool_id,
            error.reason.value,
            error,
        )


def _opened_again(engine: str | None) -> str:
    return (
        f"engine {engine} was opened again; if that was no restart, another engine has the same "
        "name: give each a KVQUARRY_ENGINE of its own"
    )
