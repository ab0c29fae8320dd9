"""The service's status, to the wire, and from the wire to what JSON and tables are made of."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from google.protobuf.message import Message

from kvquarry.v1alpha import admin_pb2, pool_pb2
from kvquarry_core.work import Work
from kvquarry_server.conversion.outcomes import usage_to_wire
from kvquarry_server.conversion.plans import plan_to_wire
from kvquarry_server.conversion.policies import policies_to_wire
from kvquarry_server.status import PoolStatus, ServiceStatus

#: What JSON knows.
Plain = str | int | float | bool | list["Plain"] | dict[str, "Plain"]


def status_to_wire(status: ServiceStatus) -> admin_pb2.GetStatusResponse:
    """The whole service."""
    return admin_pb2.GetStatusResponse(
        boot_id=status.boot_id,
        version=status.version,
        uptime_seconds=status.uptime_s,
        pools=[_pool(pool) for pool in status.pools],
    )


def plain(message: Message) -> dict[str, Plain]:
    """A message as JSON-able values under the wire's names, defaults included.

    Unlike the canonical mapping, numbers stay numbers: those that read this are scripts.
    """
    return {
        field.name: _plain_value(getattr(message, field.name), _names_of(field.enum_type))
        for field in message.DESCRIPTOR.fields
    }


def _pool(pool: PoolStatus) -> admin_pb2.PoolStatus:
    return admin_pb2.PoolStatus(
        pool_id=pool.identity.pool_id,
        model=pool.identity.model,
        plan=plan_to_wire(pool.plan),
        revision=pool.revision,
        usage=usage_to_wire(pool.usage),
        counters=_counters(pool),
        attachments=[_attachment(pool)],
        workers=[
            admin_pb2.WorkerStatus(
                rank=worker.rank,
                device=worker.device,
                buffer_size_bytes=worker.buffer_bytes,
                digest=worker.digest.hex(),
            )
            for worker in pool.workers
        ],
        worker_count=pool.num_workers,
        request_count=pool.num_requests,
        policies=policies_to_wire(pool.policies),
        null_block_count=pool.plan.num_reserved_blocks,
        pin_count=pool.pins.count,
        pinned_size_bytes=pool.pins.pinned_bytes,
        pin_cap_size_bytes=pool.pins.cap_bytes,
        empty_slot_counts=pool.slots.empty_slots if pool.slots else (),
        written_size_bytes=pool.slots.written_bytes if pool.slots else 0,
        work=None if pool.work is None else _work(pool.work),
    )


def _work(work: Work) -> pool_pb2.Work:
    return pool_pb2.Work(token_flops=work.token_flops, token_pair_flops=work.token_pair_flops)


def _counters(pool: PoolStatus) -> admin_pb2.PoolCounters:
    return admin_pb2.PoolCounters(
        query_tokens=pool.counters.query_tokens,
        hit_tokens=pool.counters.hit_tokens,
        miss_tokens=pool.miss_tokens,
        admission_count=pool.counters.admissions,
        refusal_count=pool.counters.refusals,
        commit_count=pool.counters.commits,
        eviction_counts=pool.num_evictions,
        class_changes=[
            admin_pb2.ClassChange(
                from_class=change.from_class, to_class=change.to_class, count=change.count
            )
            for change in pool.class_changes
        ],
        move_counts=pool.num_moves,
        pin_count=pool.counters.pins,
        refused_pin_count=pool.counters.pins_refused,
        broken_pin_count=pool.pins.num_broken,
    )


def _attachment(pool: PoolStatus) -> admin_pb2.AttachmentStatus:
    return admin_pb2.AttachmentStatus(
        engine=pool.identity.engine,
        incarnation=pool.identity.incarnation,
        attached=pool.is_attached,
        lease_remaining_seconds=pool.lease_remaining_s,
        last_batch_number=pool.last_batch_number,
    )


class _EnumType(Protocol):
    """What is needed of an enum's descriptor, of which protobuf has two classes."""

    @property
    def values_by_number(self) -> Mapping[int, "_EnumValue"]: ...


class _EnumValue(Protocol):
    @property
    def name(self) -> str: ...


def _names_of(enum_type: _EnumType | None) -> dict[int, str]:
    """The names of an enum's values; of any other field's, none."""
    if enum_type is None:
        return {}
    return {number: value.name for number, value in enum_type.values_by_number.items()}


def _plain_value(value: object, names: dict[int, str]) -> Plain:
    if isinstance(value, Message):
        return plain(value)
    if isinstance(value, int) and value in names:
        return names[value]
    if isinstance(value, str | int | float):
        return value
    assert isinstance(value, Sequence), f"{value!r} has no plain form"
    return [_plain_value(one, names) for one in value]
