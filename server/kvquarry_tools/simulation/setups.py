"""From settings to a pool that a trace can be replayed on."""

import math
from collections.abc import Sequence

from kvquarry_core.plan import GroupKind, GroupSpec
from kvquarry_core.pool import Pool
from kvquarry_core.reserve import DecodeReserve
from kvquarry_tools.simulation.policies import (
    REPLAYED_KINDS,
    check_kinds,
    check_split,
    plan_for,
    pool_with,
)
from kvquarry_tools.simulation.replay.pools import ReplayPool, WholePool
from kvquarry_tools.simulation.replay.split_pool import SplitPool
from kvquarry_tools.simulation.settings import Baseline, SimulationSettings
from kvquarry_tools.simulation.traces import UNIT_TOKENS, TraceRequest

_TOKEN_SHARE = 0.7
#: For the padding of states and the null blocks.
_MARGIN = 1.05
#: Blocks of a request that are only partly full, running states and checkpoints of its own.
_BLOCKS_BESIDE = 8


def make_pool(settings: SimulationSettings, trace: Sequence[TraceRequest]) -> ReplayPool:
    """The pool to replay on; a baseline goes by the core's default policies, which are stock's.

    Raises:
        InvalidOption: The model has groups that cannot be simulated, the memory holds no pool, or
            a policy is unknown.
    """
    check_kinds(settings.served.groups, REPLAYED_KINDS, "a replay")
    memory_bytes, groups = settings.memory_bytes, settings.served.groups
    match settings.baseline:
        case Baseline.STATIC:
            check_split(groups, "static")
            return SplitPool(plan_for(groups, memory_bytes), memory_bytes, _TOKEN_SHARE)
        case Baseline.UNIFORM:
            groups = settings.served.stock.groups
        case Baseline.INFINITE:
            memory_bytes = enough_bytes(settings, trace)
    plan = plan_for(groups, memory_bytes)
    if settings.baseline is None:
        pool = pool_with(plan, settings.policies, settings.served.model.work)
        return WholePool(pool, DecodeReserve(plan))
    return WholePool(Pool(plan))


def alignment_tokens(groups: Sequence[GroupSpec]) -> int:
    """Hits end at multiples of this."""
    return math.lcm(*(group.block_tokens for group in groups))


def enough_bytes(settings: SimulationSettings, trace: Sequence[TraceRequest]) -> int:
    """Memory in which nothing is ever evicted: a bound from what the trace's requests hold."""
    groups = settings.served.groups
    num_layers = max(group.num_layers for group in groups)
    return math.ceil(
        _MARGIN
        * num_layers
        * sum(_most_blocks(group, settings, trace) * group.page_bytes for group in groups)
    )


def _most_blocks(
    group: GroupSpec, settings: SimulationSettings, trace: Sequence[TraceRequest]
) -> int:
    """Blocks of a group if nothing is ever evicted; a few more than that."""
    running = _BLOCKS_BESIDE * (len(trace) + 1)
    if group.kind is GroupKind.RECURRENT_STATE and settings.retention in {"last", "boundaries"}:
        return running
    num_units = len({unit for request in trace for unit in request.units})
    prompts = num_units * max(UNIT_TOKENS // group.block_tokens + 1, 1)
    outputs = sum(request.num_output_tokens for request in trace) // group.block_tokens
    return prompts + outputs + running
