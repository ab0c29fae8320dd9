"""Stand-ins for what the service is given: time, streams, and engines with small pools."""

from kvquarry_core.plan import GroupKind, GroupSpec, Plan, make_plan
from kvquarry_core.worker_layout import planned_views
from kvquarry_server.attachment import Attachment
from kvquarry_server.faults import ServiceError
from kvquarry_server.registry import OpenRequest, Policy, Registry
from kvquarry_server.workers import Worker

ATTENTION = GroupSpec(GroupKind.FULL_ATTENTION, block_tokens=4, page_bytes=64, num_layers=2)
STATES = GroupSpec(GroupKind.RECURRENT_STATE, block_tokens=8, page_bytes=200, num_layers=1)
#: Attention twice, so that its rows have two blocks, and states: two size classes.
GROUPS = (ATTENTION, ATTENTION, STATES)
POOL_BYTES = 2 * 256 * 12


class FakeClock:
    """Time that passes when told to."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s

    def advance(self, seconds: float) -> None:
        self.now_s += seconds


class FakeStream:
    """A stream that remembers how it was ended."""

    def __init__(self) -> None:
        self.errors: list[ServiceError] = []

    def end(self, error: ServiceError) -> None:
        self.errors.append(error)


def open_request(
    engine: str = "engine",
    groups: tuple[GroupSpec, ...] = GROUPS,
    pool_bytes: int = POOL_BYTES,
    num_workers: int = 1,
) -> OpenRequest:
    """What an engine asks for, unless told otherwise."""
    return OpenRequest(engine, groups, pool_bytes, num_workers, model="tiny")


def small_plan() -> Plan:
    """The plan of :func:`open_request`."""
    return make_plan(GROUPS, POOL_BYTES)


def worker(plan: Plan, rank: int = 0, num_workers: int = 1) -> Worker:
    """A worker whose memory is what a plan says."""
    layers = tuple(planned_views(plan))
    return Worker(rank, num_workers, f"cpu:{rank}", plan.pool_bytes, layers, b"digest")


def ready_attachment(registry: Registry | None = None, engine: str = "engine") -> Attachment:
    """An attachment all of whose workers have registered."""
    registry = registry or Registry(Policy(), FakeClock())
    attachment = registry.open(open_request(engine))
    attachment.roster.register(worker(attachment.pool.plan))
    return attachment
