"""No request to open a pool can take the service's time or memory."""

import time

import pytest
from hypothesis import given, settings

from kvquarry_core.errors import PlanError, Reason, UsageError
from kvquarry_core.integrity import check_integrity
from kvquarry_core.plan import GroupKind, GroupSpec, make_plan
from kvquarry_server.faults import ServiceError, TooManyBlocks
from kvquarry_server.limits import Limits, check_geometry, check_hashes
from kvquarry_server.registry import OpenRequest, Policy, Registry
from tests.server import hostile_requests
from tests.server.doubles import FakeClock, open_request
from tests.strategies import examples

MOST_BLOCKS = 20_000


def attention(page_bytes: int) -> GroupSpec:
    return GroupSpec(GroupKind.FULL_ATTENTION, 16, page_bytes, 1)


def states(page_bytes: int, alignment_bytes: int = 16) -> GroupSpec:
    return GroupSpec(GroupKind.RECURRENT_STATE, 16, page_bytes, 1, 0, alignment_bytes)


@settings(examples(300), deadline=2000)
@given(hostile_requests.open_requests)
def test_any_request_is_answered_with_a_sound_pool_or_a_typed_error(request: OpenRequest) -> None:
    registry = Registry(Policy(limits=Limits(num_blocks=MOST_BLOCKS)), FakeClock())
    try:
        attachment = registry.open(request)
    except (UsageError, ServiceError):
        assert registry.attachments == []
    else:
        assert sum(one.num_blocks for one in attachment.pool.plan.classes) <= MOST_BLOCKS
        check_integrity(attachment.pool)


@pytest.mark.parametrize(
    ("groups", "reason"),
    [
        ((), Reason.INVALID_GROUPS),
        ((attention(64),) * 65, Reason.INVALID_GROUPS),
        (tuple(attention(64 << size) for size in range(9)), Reason.INVALID_GROUPS),
        ((attention(0),), Reason.INVALID_GROUPS),
        # Two primes have no common multiple within the pool, nor have these alignments.
        ((attention(1_000_003), attention(1_000_033), states(16)), Reason.POOL_TOO_SMALL),
        ((states(16, 65_537), states(32, 65_539), states(48, 65_543)), Reason.POOL_TOO_SMALL),
    ],
    ids=["none", "many", "many sizes", "empty page", "primes", "alignments"],
)
def test_groups_without_a_plan_are_refused_at_once(
    groups: tuple[GroupSpec, ...], reason: Reason
) -> None:
    start = time.monotonic()
    with pytest.raises(PlanError) as refusal:
        check_geometry(groups, 1 << 33, most_blocks=1 << 40)
    assert refusal.value.reason is reason
    assert time.monotonic() - start < 0.5


def test_a_pool_of_too_many_blocks_is_refused_before_it_is_planned() -> None:
    registry = Registry(Policy(), FakeClock())
    start = time.monotonic()
    with pytest.raises(TooManyBlocks, match="use larger blocks or fewer bytes"):
        registry.open(open_request(groups=(attention(1),), pool_bytes=1 << 62))
    assert time.monotonic() - start < 0.5


def test_page_sizes_may_be_far_apart() -> None:
    """The planner tries a few thousand slabs and strides, whatever the sizes."""
    groups = (attention(16), *(states(1009 + 2 * size) for size in range(6)), states(1 << 30))
    check_geometry(groups, 1 << 34, most_blocks=1 << 40)
    assert len(make_plan(groups, 1 << 34).classes) == 8


def test_the_sizes_of_real_models_are_within_the_limits() -> None:
    """Bytes of one layer: attention of 16 tokens, states; pools as large as an accelerator's."""
    for page, state in ((16 * 2048, 2_146_304), (16 * 1024, 4_341_760), (64 * 512, 16_384)):
        check_geometry((attention(page), states(state)), 128 << 30, most_blocks=Limits().num_blocks)


@pytest.mark.parametrize("length", [0, 65])
def test_a_hash_is_neither_empty_nor_long(length: int) -> None:
    check_hashes([b"x", bytes(64)])
    with pytest.raises(UsageError, match=f"1 to 64 bytes, not {length}"):
        check_hashes([b"x", bytes(length)])
