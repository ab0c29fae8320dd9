"""Opening, attaching, closing and registering: everything about a pool but its batches."""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain

from kvquarry.v1alpha import pool_pb2, worker_pb2
from kvquarry_core.errors import Reason, UsageError
from kvquarry_core.ids import GroupId
from kvquarry_core.work import Work
from kvquarry_core.worker_layout import LayerView
from kvquarry_server import limits
from kvquarry_server.attachment import Attachment
from kvquarry_server.conversion.plans import group_from_wire, plan_to_wire
from kvquarry_server.conversion.policies import policies_from_wire, policies_to_wire
from kvquarry_server.registry import OpenRequest, Policy
from kvquarry_server.workers import Worker


@dataclass(frozen=True, slots=True)
class Membership:
    """Which life of which engine a caller claims to be."""

    pool_id: str
    incarnation: int


def open_request_from_wire(message: pool_pb2.OpenPoolRequest) -> OpenRequest:
    """What an engine needs.

    Raises:
        PlanError: A group is of a kind that this service does not know.
    """
    return OpenRequest(
        engine=message.engine,
        groups=tuple(group_from_wire(group) for group in message.groups),
        pool_bytes=message.pool_size_bytes,
        num_workers=message.worker_count,
        model=message.model,
        policies=policies_from_wire(message.policies),
        work=_work(message.work) if message.HasField("work") else None,
        hears_evictions=not message.hears_no_evictions,
    )


def opened_to_wire(
    boot_id: str, attachment: Attachment, policy: Policy
) -> pool_pb2.OpenPoolResponse:
    """What an engine was given."""
    return pool_pb2.OpenPoolResponse(
        pool_id=attachment.identity.pool_id,
        incarnation=attachment.identity.incarnation,
        plan=plan_to_wire(attachment.pool.plan),
        boot_id=boot_id,
        lease_seconds=policy.lease_s,
        attach_seconds=policy.attach_s,
        earlier_was_attached=attachment.identity.earlier_was_attached,
        policies=policies_to_wire(attachment.policies),
    )


def hello_from_wire(message: pool_pb2.AttachRequest) -> Membership:
    """The first message of a stream.

    Raises:
        UsageError: It is another message.
    """
    if message.WhichOneof("message") != "hello" or message.following:
        raise UsageError(
            Reason.INVALID_ARGUMENT, "the first message of a stream must say hello and no more"
        )
    return Membership(message.hello.pool_id, message.hello.incarnation)


def batches_of(message: pool_pb2.AttachRequest) -> Iterable[pool_pb2.Batch]:
    """A later message of a stream: one batch, or several, each of which is read in its own turn.

    Raises:
        UsageError: It is another message.
    """
    if message.WhichOneof("message") != "batch":
        raise UsageError(
            Reason.INVALID_ARGUMENT, "every message of a stream after the first must be a batch"
        )
    return chain((message.batch,), message.following)


def welcome_to_wire(boot_id: str, attachment: Attachment) -> pool_pb2.AttachResponse:
    """The answer to a hello."""
    return pool_pb2.AttachResponse(
        boot_id=boot_id,
        revision=attachment.revision,
        welcome=pool_pb2.Welcome(last_batch_number=attachment.last_batch_number),
    )


def close_request_from_wire(message: pool_pb2.ClosePoolRequest) -> Membership:
    """Whose pool is to be dropped."""
    return Membership(message.pool_id, message.incarnation)


def registering_from_wire(message: worker_pb2.RegisterWorkerRequest) -> Membership:
    """Whose worker registers."""
    return Membership(message.pool_id, message.incarnation)


def worker_from_wire(message: worker_pb2.RegisterWorkerRequest) -> Worker:
    """What a worker says of itself.

    Raises:
        UsageError: Its digest or one of its names is out of bounds.
    """
    limits.check_digest(message.digest)
    limits.check_text("a device's name", message.device)
    return Worker(
        rank=message.rank,
        num_workers=message.worker_count,
        device=message.device,
        buffer_bytes=message.buffer_size_bytes,
        layers=tuple(_layer_view(view) for view in message.layers),
        digest=message.digest,
    )


def registered_to_wire(boot_id: str, attachment: Attachment) -> worker_pb2.RegisterWorkerResponse:
    """How many workers have registered."""
    return worker_pb2.RegisterWorkerResponse(
        registered_count=len(attachment.roster.workers), boot_id=boot_id
    )


def _work(message: pool_pb2.Work) -> Work:
    return Work(message.token_flops, message.token_pair_flops)


def _layer_view(message: worker_pb2.LayerView) -> LayerView:
    limits.check_text("a layer's name", message.layer)
    return LayerView(
        layer=message.layer,
        group=GroupId(message.group),
        offset_bytes=message.offset_bytes,
        stride_bytes=message.stride_bytes,
        num_blocks=message.block_count,
    )
