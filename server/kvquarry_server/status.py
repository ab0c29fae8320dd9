"""What the service holds, as a snapshot: the one source of ``kvquarry status`` and ``/metrics``."""

from dataclasses import dataclass, replace

from kvquarry_core.counters import PoolCounters
from kvquarry_core.plan import Plan
from kvquarry_core.policies import PolicyNames
from kvquarry_core.slot_use import SlotUse, slot_use_of
from kvquarry_core.usage import PoolUsage, usage_of
from kvquarry_core.work import Work
from kvquarry_server.attachment import Attachment, Identity
from kvquarry_server.registry import Registry
from kvquarry_server.workers import Worker


@dataclass(frozen=True, slots=True)
class ClassChange:
    """How often a slab went from one size class to another."""

    from_class: int
    to_class: int
    count: int


@dataclass(frozen=True, slots=True)
class PinTotals:
    """All pins of a pool.

    Attributes:
        count: How many there are.
        pinned_bytes: What they hold; a block that several of them hold counts once.
        cap_bytes: What they may hold at most.
        num_broken: Pins that gave way before their time, since the pool was opened.
    """

    count: int
    pinned_bytes: int
    cap_bytes: int
    num_broken: int


@dataclass(frozen=True, slots=True)
class PinStatus:
    """One pin.

    Attributes:
        engine: Whose pool it is in.
        pool_id: Which pool that is.
        pin_id: Its name.
        num_tokens: The length of the prefix that it holds.
        size_bytes: What it holds, whoever else holds it, too.
        remaining_s: Until it lapses.
    """

    engine: str
    pool_id: str
    pin_id: str
    num_tokens: int
    size_bytes: int
    remaining_s: float


@dataclass(frozen=True, slots=True)
class PoolStatus:
    """One pool and its attachment.

    Attributes:
        identity: Whose life it belongs to.
        plan: How it is cut.
        revision: The number of its last mutation.
        usage: Where its blocks are.
        counters: What happened since it was opened.
        policies: What the pool goes by.
        work: What its model computes; None where the engine does not say.
        num_evictions: Evicted blocks, by size class.
        num_moves: Moved blocks, by size class.
        class_changes: For every ordered pair of different size classes.
        is_attached: Whether a stream is open.
        lease_remaining_s: Until it is dropped; only while no stream is open.
        last_batch_number: The last batch applied.
        workers: Those registered, by rank.
        num_workers: Those expected.
        num_requests: Requests it knows.
        pins: What is pinned.
        slots: How much of what is used is written; None while the engine never told.
    """

    identity: Identity
    plan: Plan
    revision: int
    usage: PoolUsage
    counters: PoolCounters
    policies: PolicyNames
    work: Work | None
    num_evictions: tuple[int, ...]
    num_moves: tuple[int, ...]
    class_changes: tuple[ClassChange, ...]
    is_attached: bool
    lease_remaining_s: float
    last_batch_number: int
    workers: tuple[Worker, ...]
    num_workers: int
    num_requests: int
    pins: PinTotals
    slots: SlotUse | None

    @property
    def miss_tokens(self) -> int:
        """Tokens that were looked up and not found."""
        return self.counters.query_tokens - self.counters.hit_tokens

    def num_slabs(self, size_class: int) -> int:
        """Slabs that belong to a size class."""
        carved = self.usage.classes[size_class].carved
        return carved // self.plan.classes[size_class].blocks_per_slab


@dataclass(frozen=True, slots=True)
class ServiceStatus:
    """The whole service."""

    boot_id: str
    version: str
    uptime_s: float
    pools: tuple[PoolStatus, ...]


@dataclass(frozen=True, slots=True)
class Boot:
    """One life of the service.

    Attributes:
        boot_id: Its name, new at every start.
        version: The distribution's.
        started_at: By the registry's clock.
    """

    boot_id: str
    version: str
    started_at: float


def status_of(boot: Boot, registry: Registry) -> ServiceStatus:
    """Take a snapshot; O(pools * size classes)."""
    now = registry.clock()
    pools = tuple(_pool_status(attachment, now) for attachment in registry.attachments)
    return ServiceStatus(boot.boot_id, boot.version, now - boot.started_at, pools)


def pins_of(registry: Registry) -> tuple[PinStatus, ...]:
    """All pins, by pool, the one that lapses first first."""
    return tuple(
        PinStatus(
            attachment.identity.engine,
            attachment.identity.pool_id,
            pin.pin_id,
            pin.num_tokens,
            attachment.pool.pins.size_bytes(pin),
            attachment.pool.pins.remaining_s(pin),
        )
        for attachment in registry.attachments
        for pin in attachment.pool.pins
    )


def _pool_status(attachment: Attachment, now: float) -> PoolStatus:
    pool, roster, told = attachment.pool, attachment.roster, attachment.empty_slots
    return PoolStatus(
        identity=attachment.identity,
        plan=pool.plan,
        revision=attachment.revision,
        usage=usage_of(pool),
        counters=replace(pool.totals),
        policies=attachment.policies,
        work=attachment.work,
        num_evictions=tuple(pool.store.num_evictions),
        num_moves=tuple(pool.store.num_moves),
        class_changes=tuple(_class_changes(pool.store.slabs.num_class_changes)),
        is_attached=attachment.lease.is_held,
        lease_remaining_s=attachment.lease.remaining_s(now=now),
        last_batch_number=attachment.last_batch_number,
        workers=tuple(roster.workers),
        num_workers=roster.num_workers,
        num_requests=len(pool.requests),
        pins=PinTotals(
            len(pool.pins), pool.pins.pinned_bytes, pool.pins.cap_bytes, pool.pins.num_broken
        ),
        slots=slot_use_of(pool, told) if told else None,
    )


def _class_changes(counts: list[list[int]]) -> list[ClassChange]:
    return [
        ClassChange(from_class, to_class, count)
        for from_class, row in enumerate(counts)
        for to_class, count in enumerate(row)
        if from_class != to_class
    ]
