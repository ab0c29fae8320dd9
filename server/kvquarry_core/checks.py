"""What a pool accepts: every argument is checked here before anything moves."""

from collections.abc import Sequence

from kvquarry_core.errors import Reason, UsageError
from kvquarry_core.ids import LARGEST_HANDLE, BlockId, GroupId, Handle, KindId
from kvquarry_core.messages import AdmitRequest, AheadRequest, PinRequest
from kvquarry_core.plan import Plan
from kvquarry_core.priorities import NUM_PRIORITIES

#: A pin that would outlive every engine is a mistake.
LONGEST_PIN_S = 30 * 24 * 3600
_LONGEST_PIN_ID = 128


def check_admit(plan: Plan, request: AdmitRequest) -> None:
    """The numbers of a request must agree with each other and with the plan."""
    if not 0 <= request.handle <= LARGEST_HANDLE:
        raise UsageError(
            Reason.INVALID_ARGUMENT,
            f"handles run from 0 to {LARGEST_HANDLE}, not {request.handle}",
        )
    if request.num_tokens < 1 or not 0 <= request.max_hit_tokens < request.num_tokens:
        raise UsageError(
            Reason.INVALID_ARGUMENT,
            f"a hit of at most {request.max_hit_tokens} tokens does not leave one of "
            f"{request.num_tokens} to compute",
        )
    counts = (
        request.lookahead_tokens,
        request.must_fit_tokens,
        request.in_flight_tokens,
        request.encoder_tokens,
        *request.keep_free_blocks,
    )
    if request.max_grant_tokens < 1 or min(counts) < 0:
        raise UsageError(
            Reason.INVALID_ARGUMENT,
            f"request {request.handle} wants {request.max_grant_tokens} tokens granted "
            f"(at least 1) and counts {counts} (at least 0)",
        )
    if not 0 <= request.priority < NUM_PRIORITIES:
        raise UsageError(
            Reason.INVALID_ARGUMENT,
            f"priorities run from 0 to {NUM_PRIORITIES - 1}, not {request.priority}",
        )
    if request.keep_free_blocks and len(request.keep_free_blocks) != len(plan.classes):
        raise UsageError(
            Reason.INVALID_ARGUMENT,
            f"the pool has {len(plan.classes)} size classes, not {len(request.keep_free_blocks)}",
        )


def check_pin(request: PinRequest) -> None:
    """A pin has a short, visible name and an end."""
    name = request.pin_id
    if not 1 <= len(name) <= _LONGEST_PIN_ID or not name.isprintable() or " " in name:
        raise UsageError(
            Reason.INVALID_ARGUMENT,
            f"a pin's name has 1 to {_LONGEST_PIN_ID} printable characters without spaces, unlike "
            f"{name[:_LONGEST_PIN_ID]!r}",
        )
    if not 0 < request.ttl_s <= LONGEST_PIN_S:
        raise UsageError(
            Reason.INVALID_ARGUMENT,
            f"a pin lasts more than 0 and at most {LONGEST_PIN_S} s, not {request.ttl_s}",
        )


def check_counts(plan: Plan, counts: Sequence[int]) -> None:
    """One count of at least 0 per group."""
    if len(counts) != len(plan.groups) or min(counts) < 0:
        raise UsageError(
            Reason.INVALID_ARGUMENT,
            f"expected {len(plan.groups)} counts of at least 0, got {list(counts)}",
        )


def check_group(plan: Plan, group: GroupId) -> None:
    """The group exists."""
    if not 0 <= group < len(plan.groups):
        raise UsageError(
            Reason.UNKNOWN_GROUP, f"groups run from 0 to {len(plan.groups) - 1}, not {group}"
        )


def check_kind(plan: Plan, kind: KindId) -> None:
    """The kind exists."""
    if not 0 <= kind < len(plan.kinds):
        raise UsageError(
            Reason.UNKNOWN_GROUP, f"kinds run from 0 to {len(plan.kinds) - 1}, not {kind}"
        )


def check_blocks(plan: Plan, group: GroupId, blocks: Sequence[BlockId]) -> None:
    """The group and its blocks exist; the null block is nobody's."""
    check_group(plan, group)
    num_blocks = plan.classes[plan.class_of_group[group]].num_blocks
    for block in blocks:
        if not 0 < block < num_blocks:
            raise UsageError(
                Reason.UNKNOWN_BLOCK,
                f"blocks of group {group} run from 1 to {num_blocks - 1}, not {block}",
            )


def check_granted(handle: Handle, group: GroupId, num_granted: int, num_blocks: int) -> None:
    """Nobody takes more than was granted."""
    if not 0 <= num_blocks <= num_granted:
        raise UsageError(
            Reason.NOT_GRANTED,
            f"request {handle} has {num_granted} granted blocks in group {group}, not {num_blocks}",
        )


def check_ahead(request: AheadRequest) -> None:
    """One count of at least 0 per request, and something to grant it from."""
    if len(request.handles) != len(request.num_blocks) or min(request.num_blocks, default=0) < 0:
        raise UsageError(
            Reason.INVALID_ARGUMENT,
            f"expected {len(request.handles)} counts of at least 0, got {request.num_blocks}",
        )
