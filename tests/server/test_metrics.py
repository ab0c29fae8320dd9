"""Metrics say what the pools hold, in a bounded number of well-named series."""

import re

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families

from kvquarry_core.ids import Handle
from kvquarry_core.messages import AdmitRequest
from kvquarry_core.plan import GroupKind, GroupSpec
from kvquarry_server.errors import STATUS_OF
from kvquarry_server.limits import Limits
from kvquarry_server.metrics import PrometheusTelemetry, StatusCollector
from kvquarry_server.operations import Batch
from kvquarry_server.registry import Policy, Registry
from kvquarry_server.status import Boot, status_of
from tests.server.doubles import FakeClock, open_request, ready_attachment

#: For the largest number of pools with the largest number of size classes, all reasons included.
MOST_SERIES = 10_000
METHODS = ("OpenPool", "ClosePool", "Attach", "RegisterWorker")


def scrape(registry: Registry) -> dict[str, Metric]:
    """What Prometheus would read, by name."""
    collectors = CollectorRegistry()
    collectors.register(StatusCollector(lambda: status_of(Boot("b", "1.0", 0.0), registry)))
    telemetry = PrometheusTelemetry(collectors)
    telemetry.applied_batch(30e-6)
    for reason in STATUS_OF:
        for method in METHODS:
            telemetry.refused(method, reason.value)
    text = generate_latest(collectors).decode()
    return {family.name: family for family in text_string_to_metric_families(text)}


def value(metrics: dict[str, Metric], name: str, **labels: str) -> float:
    """The value of the only sample of that name with these labels among its own."""
    (found,) = (
        sample.value
        for family in metrics.values()
        for sample in family.samples
        if sample.name == name and labels.items() <= sample.labels.items()
    )
    return found


def test_blocks_of_a_class_add_up_to_its_slabs() -> None:
    registry = Registry(Policy(), FakeClock())
    attachment = ready_attachment(registry)
    attachment.apply(Batch(1, [AdmitRequest(Handle(1), (), 8, 0, 8)]))
    metrics = scrape(registry)
    for size_class, per_slab in (("0", 4), ("1", 1)):
        blocks = sum(
            value(metrics, "kvquarry_blocks", size_class=size_class, state=state)
            for state in ("free", "cached", "active", "granted", "null")
        )
        assert blocks == per_slab * value(metrics, "kvquarry_slabs", size_class=size_class)
    assert value(metrics, "kvquarry_blocks", size_class="0", state="granted") == 4
    assert value(metrics, "kvquarry_blocks", size_class="0", state="active") == 0
    assert value(metrics, "kvquarry_requests", engine="engine") == 1
    assert value(metrics, "kvquarry_workers_registered", engine="engine") == 1


def test_slot_use_is_unknown_until_it_was_told_and_stays_until_it_is_told_anew() -> None:
    registry = Registry(Policy(), FakeClock())
    attachment = ready_attachment(registry)
    attachment.apply(Batch(1, [AdmitRequest(Handle(1), (), 8, 0, 8)]))
    told = {"kvquarry_empty_slots", "kvquarry_pool_written_bytes"}
    assert all(not scrape(registry)[name].samples for name in told)
    for number, counts in enumerate(([2, 0], [], [1, 0]), start=2):
        attachment.apply(Batch(number, [], empty_slots=counts))
        expected = 2 * (counts[0] if counts else 2)
        assert value(scrape(registry), "kvquarry_empty_slots", size_class="0") == expected
    attachment.apply(Batch(2, [], empty_slots=[3, 0]))
    assert value(scrape(registry), "kvquarry_empty_slots", size_class="0") == 2, "a repetition"


def test_latency_buckets_begin_at_50_microseconds() -> None:
    metrics = scrape(Registry(Policy(), FakeClock()))
    assert value(metrics, "kvquarry_batch_seconds_bucket", le="5e-05") == 1


def test_series_are_bounded_however_many_engines_there_are() -> None:
    registry = Registry(Policy(), FakeClock())
    groups = tuple(
        GroupSpec(GroupKind.FULL_ATTENTION, 16, 64 << size, num_layers=1) for size in range(8)
    )
    for number in range(Limits().num_pools):
        registry.open(open_request(f"engine-{number}", groups, pool_bytes=1 << 20))
    metrics = scrape(registry)
    assert value(metrics, "kvquarry_pools") == Limits().num_pools
    assert 5_000 < sum(len(family.samples) for family in metrics.values()) < MOST_SERIES


def test_names_follow_the_conventions_of_prometheus() -> None:
    registry = Registry(Policy(), FakeClock())
    ready_attachment(registry)
    for name, family in scrape(registry).items():
        assert re.fullmatch(r"kvquarry_[a-z]+(_[a-z]+)*", name), name
        assert family.documentation.endswith("."), name
        # The parser strips a counter's suffix.
        assert (family.type == "counter") == any(
            sample.name == f"{name}_total" for sample in family.samples
        )
        assert not name.endswith(("_total", "_count", "_sum", "_bucket")), name
        for sample in family.samples:
            assert set(sample.labels) <= {
                "engine", "size_class", "state", "from_class", "to_class", "version",
                "method", "reason", "le",
            }  # fmt: skip
