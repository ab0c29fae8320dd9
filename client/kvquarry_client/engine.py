"""Opening an engine's pool, wherever its accounting lives.

The pool is opened where the memory is planned; the scheduler's side picks the ledger up later in
the same process, by the pool's id.
"""

import atexit
import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace

from kvquarry.v1alpha import pool_pb2, pool_pb2_grpc
from kvquarry_client.channel import open_channel
from kvquarry_client.errors import ClientError, ServiceError
from kvquarry_client.inproc import open_inproc
from kvquarry_client.ledger import Ledger
from kvquarry_client.session import Session
from kvquarry_client.target import Target, parse_target
from kvquarry_client.waiting import retry_while_away
from kvquarry_client.wire import plans
from kvquarry_core.errors import Reason, UnknownPolicy, UsageError
from kvquarry_core.pins import DEFAULT_PIN_CAP
from kvquarry_core.plan import GroupSpec, Plan, make_plan
from kvquarry_core.policies import NO_CHOICE_BUT_STAY, PolicyNames, installed_policies
from kvquarry_core.work import TOKENS, Work

logger = logging.getLogger(__name__)

_CALL_TIMEOUT_S = 10.0
_ledgers: dict[str, Ledger] = {}


@dataclass(frozen=True, slots=True)
class OpenedPool:
    """A pool that is this engine's own until its lease lapses.

    Attributes:
        pool_id: Names the pool; :func:`ledger_of` finds its ledger.
        incarnation: Which life of the engine this is; earlier ones are fenced.
        plan: How the memory is cut.
        policies: What the pool goes by.
    """

    pool_id: str
    incarnation: int
    plan: Plan
    policies: PolicyNames


def open_pool(  # noqa: PLR0913 - a pool's whole description, keyword-only
    target: str,
    *,
    engine: str,
    groups: Sequence[GroupSpec],
    pool_bytes: int,
    num_workers: int,
    model: str,
    connect_timeout_s: float,
    policies: PolicyNames = NO_CHOICE_BUT_STAY,
    pin_cap: float = DEFAULT_PIN_CAP,
    work: Work | None = None,
    hears_evictions: bool = True,
) -> OpenedPool:
    """Open a pool and attach to it; waits for a service that is not up yet.

    ``pin_cap`` is the share of the pool that pins may hold with ``inproc:``; a service has its own.
    ``work`` is what the model computes, for policies that weigh it; tokens stand for it otherwise.
    Without ``hears_evictions``, :meth:`Ledger.take_evictions` returns nothing, which is faster.

    Raises:
        UsageError: There is no retention of the name here, or with ``inproc:`` no other policy or
            no such amount of work.
        ServiceUnavailable: Nobody answered in time.
        ServiceError: The service refused.
        PlanError: The memory or the groups admit no plan.
    """
    where = parse_target(target)
    plan = make_plan(groups, pool_bytes)
    if where.is_inproc:
        return _open_inproc(
            plan, policies, pin_cap, work or TOKENS, hears_evictions=hears_evictions
        )
    check_retention(policies)
    request = plans.open_request(
        engine,
        groups,
        pool_bytes,
        num_workers,
        model,
        policies,
        work,
        hears_evictions=hears_evictions,
    )
    return _open_remote(where, request, plan, connect_timeout_s)


def check_retention(policies: PolicyNames) -> None:
    """Refuse a retention that this process could not go by: unlike other policies it runs here.

    Raises:
        UsageError: There is none of the name, or it is not to be had; the message says why.
    """
    try:
        installed_policies().make_retention(policies.or_else(PolicyNames()).retention)
    except UnknownPolicy as error:
        raise UsageError(
            error.reason,
            f"{error}. A retention runs in the engine's process: install its package there, too, "
            "or choose another (KVQUARRY_RETENTION)",
        ) from error


def ledger_of(pool_id: str) -> Ledger:
    """The ledger of a pool that this process opened."""
    return _ledgers[pool_id]


def _open_inproc(
    plan: Plan, policies: PolicyNames, pin_cap: float, work: Work, *, hears_evictions: bool
) -> OpenedPool:
    work.check()
    names = policies.or_else(PolicyNames())
    chosen = replace(installed_policies().make(names), pin_cap=pin_cap)
    pool_id, ledger = open_inproc(plan, chosen, work, hears_evictions=hears_evictions)
    _ledgers[pool_id] = ledger
    return OpenedPool(pool_id, 1, plan, names)


def _open_remote(
    target: Target, request: pool_pb2.OpenPoolRequest, plan: Plan, connect_timeout_s: float
) -> OpenedPool:
    channel = open_channel(target)
    stub = pool_pb2_grpc.PoolServiceStub(channel)
    try:
        opened: pool_pb2.OpenPoolResponse = retry_while_away(
            lambda: stub.OpenPool(request, timeout=_CALL_TIMEOUT_S),
            target,
            timeout_s=connect_timeout_s,
        )
    except ServiceError as error:
        raise _naming_the_service(error, request, target) from error
    names = plans.policies_from_wire(opened.policies)
    session = Session(
        channel,
        target,
        opened,
        plan,
        reconnect_timeout_s=connect_timeout_s,
        hears_evictions=not request.hears_no_evictions,
    )
    try:
        plans.check_same_plan(plan, opened.plan)
        check_retention(names)
    except (ClientError, UsageError):
        # Nobody will attach: until the service gives up waiting the pool would stand in the way.
        session.close()
        raise
    if opened.earlier_was_attached:
        logger.warning(
            "engine %s has taken the pool of an attached engine of its name at %s: if that was no "
            "restart, give each engine a KVQUARRY_ENGINE of its own",
            request.engine,
            target,
        )
    session.start()
    _ledgers[opened.pool_id] = session
    atexit.register(session.close)
    return OpenedPool(opened.pool_id, opened.incarnation, plan, names)


def _naming_the_service(
    error: ServiceError, request: pool_pb2.OpenPoolRequest, target: Target
) -> ServiceError:
    """A refusal of a policy that says who lacks what; any other as it is."""
    if error.reason != Reason.UNKNOWN_POLICY.value:
        return error
    kind, offered = (error.metadata.get(key, "") for key in ("policy_kind", "offered"))
    if kind in request.policies.DESCRIPTOR.fields_by_name:
        text = (
            f"the service at {target} offers no {kind} {getattr(request.policies, kind)!r} "
            f"(KVQUARRY_{kind.upper()}); install its package there, too, or choose one of {offered}"
        )
    else:
        text = f"the service at {target} refuses the pool: {error.message}"
    return ServiceError(error.reason, text, error.metadata)
