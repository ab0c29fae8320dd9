"""What Prometheus gets to know of each pool, metric by metric.

Labels come from closed sets: engines (the limit on pools bounds them) and size classes (the limit
on page sizes does). Hits and misses are counters of tokens; rates are the reader's to make.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric

from kvquarry_server.status import PoolStatus

#: Values of one pool by the labels beside ``engine``.
Values = dict[tuple[str, ...], float]


@dataclass(frozen=True, slots=True)
class PoolMetric:
    """One metric that every pool has.

    Attributes:
        family: Whether it only grows.
        name: Its full name; that of a counter ends with ``_total``.
        text: What it means.
        values: Reads it off a pool.
        labels: Besides ``engine``.
    """

    family: type[GaugeMetricFamily] | type[CounterMetricFamily]
    name: str
    text: str
    values: Callable[[PoolStatus], Values]
    labels: tuple[str, ...] = ()

    def of(self, pools: Iterable[PoolStatus]) -> Metric:
        """The metric with the values of all pools."""
        family = self.family(self.name, self.text, labels=("engine", *self.labels))
        for pool in pools:
            for labels, value in self.values(pool).items():
                family.add_metric((pool.identity.engine, *labels), value)
        return family


def _one(read: Callable[[PoolStatus], float]) -> Callable[[PoolStatus], Values]:
    return lambda pool: {(): read(pool)}


def _blocks(pool: PoolStatus) -> Values:
    return {
        (str(size_class), state): count
        for size_class, usage in enumerate(pool.usage.classes)
        for state, count in (
            ("free", usage.free),
            ("cached", usage.cached),
            ("active", usage.active),
            ("granted", usage.granted),
            ("null", usage.null),
        )
    }


def _slabs(pool: PoolStatus) -> Values:
    return {(str(index),): pool.num_slabs(index) for index in range(len(pool.plan.classes))}


def _block_bytes(pool: PoolStatus) -> Values:
    return {
        (str(index),): size_class.stride_bytes * pool.plan.num_regions
        for index, size_class in enumerate(pool.plan.classes)
    }


def _empty_slots(pool: PoolStatus) -> Values:
    slots = pool.slots.empty_slots if pool.slots else ()
    return {(str(index),): count for index, count in enumerate(slots)}


def _written_bytes(pool: PoolStatus) -> Values:
    return {(): pool.slots.written_bytes} if pool.slots else {}


def _evictions(pool: PoolStatus) -> Values:
    return {(str(index),): count for index, count in enumerate(pool.num_evictions)}


def _moves(pool: PoolStatus) -> Values:
    return {(str(index),): count for index, count in enumerate(pool.num_moves)}


def _class_changes(pool: PoolStatus) -> Values:
    return {
        (str(change.from_class), str(change.to_class)): change.count
        for change in pool.class_changes
    }


_GAUGE, _COUNTER = GaugeMetricFamily, CounterMetricFamily

POOL_METRICS: tuple[PoolMetric, ...] = (
    PoolMetric(
        _GAUGE,
        "kvquarry_blocks",
        "Blocks in the slabs of a size class, by what they are; active are those that requests or "
        "pins hold.",
        _blocks,
        ("size_class", "state"),
    ),
    PoolMetric(
        _GAUGE, "kvquarry_slabs", "Slabs that belong to a size class.", _slabs, ("size_class",)
    ),
    PoolMetric(
        _GAUGE,
        "kvquarry_unassigned_slabs",
        "Slabs that belong to no size class.",
        _one(lambda pool: pool.usage.unassigned_slabs),
    ),
    PoolMetric(
        _GAUGE,
        "kvquarry_block_bytes",
        "Bytes of one block of a size class in all layers, padding included.",
        _block_bytes,
        ("size_class",),
    ),
    PoolMetric(
        _GAUGE,
        "kvquarry_pool_bytes",
        "Bytes of the pool.",
        _one(lambda pool: pool.plan.pool_bytes),
    ),
    PoolMetric(
        _GAUGE,
        "kvquarry_pool_usable_bytes",
        "Bytes that could ever be used.",
        _one(lambda pool: pool.usage.usable_bytes),
    ),
    PoolMetric(
        _GAUGE,
        "kvquarry_pool_used_bytes",
        "Bytes of blocks that requests use or were granted, or that pins hold.",
        _one(lambda pool: pool.usage.used_bytes),
    ),
    PoolMetric(
        _GAUGE,
        "kvquarry_pool_written_bytes",
        "Those of the bytes used that hold tokens or states, as of the engine's last message.",
        _written_bytes,
    ),
    PoolMetric(
        _GAUGE,
        "kvquarry_empty_slots",
        "Token slots in blocks in use that hold nothing yet, as of the engine's last message.",
        _empty_slots,
        ("size_class",),
    ),
    PoolMetric(
        _GAUGE,
        "kvquarry_requests",
        "Requests that the pool knows.",
        _one(lambda pool: pool.num_requests),
    ),
    PoolMetric(
        _GAUGE,
        "kvquarry_attached",
        "1 while the engine's stream is open.",
        _one(lambda pool: int(pool.is_attached)),
    ),
    PoolMetric(
        _GAUGE,
        "kvquarry_incarnation",
        "Which life of the engine this is.",
        _one(lambda pool: pool.identity.incarnation),
    ),
    PoolMetric(
        _GAUGE,
        "kvquarry_workers_registered",
        "Workers that have registered their memory.",
        _one(lambda pool: len(pool.workers)),
    ),
    PoolMetric(
        _GAUGE,
        "kvquarry_workers_expected",
        "Workers the engine has.",
        _one(lambda pool: pool.num_workers),
    ),
    PoolMetric(
        _COUNTER,
        "kvquarry_query_tokens_total",
        "Tokens of admitted requests that were looked up.",
        _one(lambda pool: pool.counters.query_tokens),
    ),
    PoolMetric(
        _COUNTER,
        "kvquarry_hit_tokens_total",
        "Those of them that were found and used.",
        _one(lambda pool: pool.counters.hit_tokens),
    ),
    PoolMetric(
        _COUNTER,
        "kvquarry_miss_tokens_total",
        "Those of them that were not.",
        _one(lambda pool: pool.miss_tokens),
    ),
    PoolMetric(
        _COUNTER,
        "kvquarry_admissions_total",
        "Requests admitted.",
        _one(lambda pool: pool.counters.admissions),
    ),
    PoolMetric(
        _COUNTER,
        "kvquarry_refusals_total",
        "Requests for blocks that did not fit.",
        _one(lambda pool: pool.counters.refusals),
    ),
    PoolMetric(
        _COUNTER,
        "kvquarry_commits_total",
        "Rows of blocks that became findable.",
        _one(lambda pool: pool.counters.commits),
    ),
    PoolMetric(
        _COUNTER,
        "kvquarry_evictions_total",
        "Cached blocks dropped to reuse their memory.",
        _evictions,
        ("size_class",),
    ),
    PoolMetric(
        _COUNTER,
        "kvquarry_moves_total",
        "Blocks that were moved to make room for larger ones.",
        _moves,
        ("size_class",),
    ),
    PoolMetric(
        _GAUGE,
        "kvquarry_pins",
        "Prefixes that are pinned.",
        _one(lambda pool: pool.pins.count),
    ),
    PoolMetric(
        _GAUGE,
        "kvquarry_pinned_bytes",
        "Bytes that pins hold.",
        _one(lambda pool: pool.pins.pinned_bytes),
    ),
    PoolMetric(
        _GAUGE,
        "kvquarry_pin_cap_bytes",
        "Bytes that pins may hold at most.",
        _one(lambda pool: pool.pins.cap_bytes),
    ),
    PoolMetric(
        _COUNTER,
        "kvquarry_pins_made_total",
        "Pins that were made or extended.",
        _one(lambda pool: pool.counters.pins),
    ),
    PoolMetric(
        _COUNTER,
        "kvquarry_pins_refused_total",
        "Pins that an engine asked for and that were refused.",
        _one(lambda pool: pool.counters.pins_refused),
    ),
    PoolMetric(
        _COUNTER,
        "kvquarry_pins_broken_total",
        "Pins that gave way before their time, so that a request could run.",
        _one(lambda pool: pool.pins.num_broken),
    ),
    PoolMetric(
        _COUNTER,
        "kvquarry_slab_class_changes_total",
        "Slabs that went from one size class to another.",
        _class_changes,
        ("from_class", "to_class"),
    ),
)
