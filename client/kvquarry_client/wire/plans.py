"""What a pool is opened with, to the wire, and how it was cut, from there."""

from collections.abc import Iterable

from kvquarry.v1alpha import plan_pb2, pool_pb2
from kvquarry_client.errors import PlanMismatch
from kvquarry_core.plan import GroupKind, GroupSpec, Plan
from kvquarry_core.policies import PolicyNames
from kvquarry_core.work import Work

_GROUP_KINDS = {
    GroupKind.FULL_ATTENTION: plan_pb2.GROUP_KIND_FULL_ATTENTION,
    GroupKind.RECURRENT_STATE: plan_pb2.GROUP_KIND_RECURRENT_STATE,
    GroupKind.SLIDING_WINDOW: plan_pb2.GROUP_KIND_SLIDING_WINDOW,
    GroupKind.CHUNKED_LOCAL: plan_pb2.GROUP_KIND_CHUNKED_LOCAL,
    GroupKind.CROSS_ATTENTION: plan_pb2.GROUP_KIND_CROSS_ATTENTION,
    GroupKind.SCRATCH: plan_pb2.GROUP_KIND_SCRATCH,
}


def open_request(  # noqa: PLR0913, PLR0917 - a pool's whole description
    engine: str,
    groups: Iterable[GroupSpec],
    pool_bytes: int,
    num_workers: int,
    model: str,
    policies: PolicyNames,
    work: Work | None = None,
    *,
    hears_evictions: bool = True,
) -> pool_pb2.OpenPoolRequest:
    """The message that opens a pool."""
    return pool_pb2.OpenPoolRequest(
        engine=engine,
        groups=[_group_spec(group) for group in groups],
        pool_size_bytes=pool_bytes,
        worker_count=num_workers,
        model=model,
        policies=pool_pb2.Policies(
            placement=policies.placement,
            eviction=policies.eviction,
            relocation=policies.relocation,
            retention=policies.retention,
        ),
        work=None if work is None else _work(work),
        hears_no_evictions=not hears_evictions,
    )


def policies_from_wire(message: pool_pb2.Policies) -> PolicyNames:
    """What a pool goes by; a default where the service does not say."""
    named = PolicyNames(message.placement, message.eviction, message.relocation, message.retention)
    return named.or_else(PolicyNames())


def check_same_plan(ours: Plan, theirs: plan_pb2.Plan) -> None:
    """Refuse a service that cut the pool differently.

    Raises:
        PlanMismatch: Always a difference in versions, since both use the same function.
    """
    classes = [
        (c.page_bytes, c.stride_bytes, c.blocks_per_slab, c.block_count)
        for c in theirs.size_classes
    ]
    expected = [
        (c.page_bytes, c.stride_bytes, c.blocks_per_slab, c.num_blocks) for c in ours.classes
    ]
    same = (
        classes == expected
        and list(theirs.class_of_group) == list(ours.class_of_group)
        and theirs.region_count == ours.num_regions
        and theirs.pool_size_bytes == ours.pool_bytes
    )
    if not same:
        raise PlanMismatch(
            f"the service cut the pool into {classes}, this client into {expected}: "
            "install the same version of kvquarry on both sides"
        )


def _work(work: Work) -> pool_pb2.Work:
    return pool_pb2.Work(token_flops=work.token_flops, token_pair_flops=work.token_pair_flops)


def _group_spec(group: GroupSpec) -> plan_pb2.GroupSpec:
    return plan_pb2.GroupSpec(
        kind=_GROUP_KINDS[group.kind],
        block_tokens=group.block_tokens,
        page_bytes=group.page_bytes,
        layer_count=group.num_layers,
        speculative_block_count=group.num_speculative_blocks,
        alignment_bytes=group.alignment_bytes,
        window_token_count=group.window_tokens,
        is_draft=group.is_draft,
    )
